#include "cloud/s3_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cloud/s3_list.h"
#include "cloud/xml.h"
#include "core/token.h"

namespace tern {
namespace {

// S3's own: at most 10,000 parts, each but the last of 5 MiB at least. One request takes 5 GiB, and
// up to two parts are sent in one.
constexpr size_t kPartsMax = 10'000;
constexpr size_t kPartBytesMin = size_t{5} << 20;
constexpr size_t kPartBytesMax = size_t{2} << 30;
constexpr int kConflictsMax = 4;

Error is_taken(const std::string& bucket, const std::string& name) {
  return fail(Code::already_exists,
              fmt::format("s3://{}/{} is already there; choose another name", bucket, name));
}

void add_condition(S3Request& request, S3WriteMode mode) {
  if (mode == S3WriteMode::create_only) request.headers.push_back({"If-None-Match", "*"});
}

HttpHeader nonce_header(const std::string& nonce) {
  return {std::string("x-amz-meta-") + kNonceName, nonce};
}

}  // namespace

std::optional<Verdict> judge_s3_completion(HttpAnswer& answer) {
  if (answer.status == 409) return Verdict::done;
  if (answer.status != 200) return std::nullopt;
  const S3Problem problem = read_s3_problem(answer);
  if (problem.code.empty()) return Verdict::done;
  answer.status = problem.code == "PreconditionFailed" ? 412 : 500;
  return judge_s3_problem(problem, answer.status);
}

Status S3Writer::write(const std::string& name, BytesView bytes, S3WriteMode mode) {
  ASSIGN_OR_RETURN(std::string nonce, random_token());
  const Write write{name, bytes, mode, std::move(nonce)};
  const bool in_parts = bytes.size() > 2 * part_bytes_for(bytes.size());
  return in_parts ? write_in_parts(write) : write_whole(write);
}

Status S3Writer::write_whole(const Write& write) {
  S3Request request{.method = "PUT", .name = write.name, .body = write.bytes, .is_upload = true};
  add_condition(request, write.mode);
  const bool creates = write.mode == S3WriteMode::create_only;
  if (creates) request.headers.push_back(nonce_header(write.nonce));
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send(std::move(request)));
  if (answer.status / 100 == 2 && !answer.header("ETag").empty()) return {};
  if (answer.status == 412 && creates) return taken(write);
  return client_.error(answer, kS3Write, write.name);
}

Result<Writer> S3Writer::writer_of_what_is_there(const Write& write) {
  return writer_by(reader_.nonce_of(write.name), write.nonce);
}

Status S3Writer::taken(const Write& write) {
  ASSIGN_OR_RETURN(const Writer writer, writer_of_what_is_there(write));
  return writer == Writer::us ? Status() : is_taken(client_.bucket(), write.name);
}

size_t S3Writer::part_bytes_for(size_t size) const {
  const size_t wanted =
      std::clamp(static_cast<size_t>(options_.part_bytes), kPartBytesMin, kPartBytesMax);
  return std::max(wanted, (size + kPartsMax - 1) / kPartsMax);
}

Status S3Writer::write_in_parts(const Write& write) {
  for (int i = 0; i < kConflictsMax; ++i) {
    if (write.mode == S3WriteMode::create_only) {
      // Asked first: many bytes would be sent only to hear at the end that the name is taken.
      ASSIGN_OR_RETURN(const Writer writer, writer_of_what_is_there(write));
      if (writer == Writer::us) return {};  // by an upload before this one
      if (writer == Writer::others) return is_taken(client_.bucket(), write.name);
    }
    const Status status = upload_once(write);
    if (status || status.error().code != Code::aborted) return status;
  }
  return fail(Code::unavailable,
              fmt::format("s3://{}/{} was being written by others {} times; try again",
                          client_.bucket(), write.name, kConflictsMax));
}

Status S3Writer::upload_once(const Write& write) {
  ASSIGN_OR_RETURN(Upload upload, begin(write));
  Status status = send_parts(upload);
  if (status) status = complete(upload);
  if (!status) abort(upload);
  return status;
}

Result<S3Writer::Upload> S3Writer::begin(const Write& write) {
  // With the nonce whatever the mode: an end that was carried out twice must be known too.
  S3Request request{.method = "POST",
                    .name = write.name,
                    .query = {{"uploads", ""}},
                    .headers = {nonce_header(write.nonce)}};
  if (client_.uses_crc32c()) request.headers.push_back({"x-amz-checksum-algorithm", "CRC32C"});
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send(std::move(request)));
  if (answer.status != 200) return client_.error(answer, kS3Write, write.name);
  Result<std::string> id = parse_s3_upload_id(answer.body);
  if (!id) return not_an_s3(answer, client_.place());
  return Upload{.write = write, .id = std::move(*id), .etags = {}};
}

Status S3Writer::send_parts(Upload& upload) {
  const BytesView bytes = upload.write.bytes;
  const size_t part_bytes = part_bytes_for(bytes.size());
  std::vector<S3Request> parts;
  for (size_t at = 0; at < bytes.size(); at += part_bytes) {
    parts.push_back(
        {.method = "PUT",
         .name = upload.write.name,
         .query = {{"partNumber", std::to_string(parts.size() + 1)}, {"uploadId", upload.id}},
         .body = bytes.substr(at, part_bytes),
         .is_upload = true});
  }
  const std::vector<Result<HttpAnswer>> answers = client_.send_all(std::move(parts));
  for (const Result<HttpAnswer>& got : answers) {
    RETURN_IF_ERROR(got);
    const std::string_view etag = got->header("ETag");
    if (got->status / 100 != 2 || etag.empty()) {
      return client_.error(*got, kS3Write, upload.write.name);
    }
    upload.etags.emplace_back(etag);
  }
  return {};
}

Status S3Writer::complete(const Upload& upload) {
  const Write& write = upload.write;
  const size_t part_bytes = part_bytes_for(write.bytes.size());
  std::string body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < upload.etags.size(); ++i) {
    body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", i + 1,
                        escape_xml(upload.etags[i]));
    if (client_.uses_crc32c()) {
      const BytesView part = write.bytes.substr(i * part_bytes, part_bytes);
      body += fmt::format("<ChecksumCRC32C>{}</ChecksumCRC32C>", crc32c_text(part));
      if (options_.on_sent) options_.on_sent(part);
    }
    body += "</Part>";
  }
  body += "</CompleteMultipartUpload>";
  S3Request request{.method = "POST",
                    .name = write.name,
                    .query = {{"uploadId", upload.id}},
                    .headers = {{"Content-Type", "application/xml"}},
                    .body = body};
  request.judge_first = [](HttpAnswer& answer) { return judge_s3_completion(answer); };
  add_condition(request, write.mode);
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send(std::move(request)));
  const S3Problem problem = read_s3_problem(answer);
  if (answer.status == 200) {
    return check_s3_completion(answer.body) ? Status() : not_an_s3(answer, client_.place());
  }
  if (answer.status == 412) return taken(write);
  if (problem.code == "ConditionalRequestConflict") {
    return fail(Code::aborted, "another creator was writing the same name");
  }
  // Completed by a request whose answer we did not get, or removed by somebody.
  if (problem.code == "NoSuchUpload") {
    ASSIGN_OR_RETURN(const Writer writer, writer_of_what_is_there(write));
    if (writer == Writer::us) return {};
    if (write.mode == S3WriteMode::create_only) return fail(Code::aborted, "the upload was lost");
  }
  return client_.error(answer, kS3Write, write.name);
}

// What cannot be aborted now is by abort_uploads(), or by the bucket's own rules.
void S3Writer::abort(const Upload& upload) {
  const Result<HttpAnswer> ignored = client_.send(
      {.method = "DELETE", .name = upload.write.name, .query = {{"uploadId", upload.id}}});
  static_cast<void>(ignored);
}

}  // namespace tern
