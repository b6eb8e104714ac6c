#include "cloud/gcs_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "cloud/nonce.h"
#include "core/crc32c.h"
#include "core/token.h"

namespace tern {
namespace {

constexpr int64_t kPartUnit = 256 << 10;  // all parts but the last are multiples of it
constexpr int kSendsMax = 3;
constexpr int kSessionsMax = 4;
constexpr size_t kSessionBytesMax = 8192;

// REQUIRES: name is UTF-8, as every object name is.
std::string describe(const std::string& name, uint32_t checksum, const std::string& nonce) {
  nlohmann::json json{{"name", name},
                      {"contentType", "application/octet-stream"},
                      {"crc32c", crc32c_text(checksum)}};
  if (!nonce.empty()) json["metadata"] = {{kNonceName, nonce}};
  return json.dump();
}

}  // namespace

MultipartBody make_multipart_body(std::string_view description, BytesView bytes) {
  // One that the bytes do not hold: looked for, not hoped for.
  std::string boundary = "tern-0123456789";
  for (int i = 0; bytes.find(boundary) != BytesView::npos; ++i) {
    boundary = fmt::format("tern-{}-0123456789", i);
  }
  const std::string head = fmt::format(
      "--{0}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{1}\r\n"
      "--{0}\r\nContent-Type: application/octet-stream\r\n\r\n",
      boundary, description);
  const std::string tail = fmt::format("\r\n--{}--\r\n", boundary);
  MultipartBody made;
  made.content_type = "multipart/related; boundary=" + boundary;
  made.body.reserve(head.size() + bytes.size() + tail.size());
  made.body.append(head).append(bytes).append(tail);
  return made;
}

std::optional<int64_t> stored_bytes_of(const HttpAnswer& answer) {
  std::string_view text = answer.header("Range");
  if (text.empty()) return 0;
  constexpr std::string_view kBeginning = "bytes=0-";
  if (!text.starts_with(kBeginning)) return std::nullopt;
  text.remove_prefix(kBeginning.size());
  int64_t last = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), last);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || last < 0 || last == INT64_MAX) return std::nullopt;
  return last + 1;
}

GcsUploader::GcsUploader(GcsConnection& connection, GcsReader& reader, const BucketOptions& options)
    : connection_(connection),
      reader_(reader),
      whole_bytes_max_(2 * options.part_bytes),
      part_bytes_(std::max(options.part_bytes / kPartUnit, int64_t{1}) * kPartUnit),
      on_sent_(options.on_sent) {}

Status GcsUploader::upload(const std::string& name, BytesView bytes, Rule rule) {
  std::string nonce;
  if (rule == Rule::only_new) {
    ASSIGN_OR_RETURN(nonce, random_token());
  }
  const uint32_t sum = checksum(bytes);
  const Write write{name, bytes, rule, nonce, sum, describe(name, sum, nonce)};
  const bool is_small = static_cast<int64_t>(bytes.size()) <= whole_bytes_max_;
  for (int sends = 0; sends < kSendsMax; ++sends) {
    ASSIGN_OR_RETURN(const HttpAnswer answer, is_small ? send_whole(write) : send_in_parts(write));
    if (answer.status == 200 || answer.status == 201) return check_stored(answer, write);
    if (answer.status == 412 && rule == Rule::only_new) return taken(write);
    if (!is_checksum_complaint(answer)) return connection_.error_of(answer, kGcsWrite, name);
  }
  return fail(Code::corrupt, fmt::format("gs://{}/{} arrived damaged {} times, by its checksum; "
                                         "check this machine's network and memory",
                                         connection_.bucket(), name, kSendsMax));
}

std::string GcsUploader::path_of(const char* type, const Write& write) const {
  return fmt::format("{}?uploadType={}&name={}{}", connection_.upload_path(), type,
                     percent_encode(write.name),
                     write.rule == Rule::only_new ? "&ifGenerationMatch=0" : "");
}

Result<HttpAnswer> GcsUploader::send_whole(const Write& write) {
  const MultipartBody made = make_multipart_body(write.description, write.bytes);
  return connection_.send({.method = "POST",
                           .path = path_of("multipart", write),
                           .headers = {{"Content-Type", made.content_type}},
                           .body = made.body});
}

Result<HttpAnswer> GcsUploader::send_in_parts(const Write& write) {
  for (int sessions = 0; sessions < kSessionsMax; ++sessions) {
    ASSIGN_OR_RETURN(
        HttpAnswer begun,
        connection_.send(
            {.method = "POST",
             .path = path_of("resumable", write),
             .headers = {{"Content-Type", "application/json; charset=UTF-8"},
                         {"X-Upload-Content-Type", "application/octet-stream"},
                         {"X-Upload-Content-Length", std::to_string(write.bytes.size())}},
             .body = write.description}));
    if (begun.status != 200 && begun.status != 201) return begun;
    ASSIGN_OR_RETURN(const std::string session, session_of(begun, write.name));
    ASSIGN_OR_RETURN(HttpAnswer answer, send_parts(session, write));
    // A session also ends by being finished: then the next one finds our object.
    if (answer.status != 404 && answer.status != 410) return answer;
  }
  return fail(Code::unavailable, fmt::format("the upload of gs://{}/{} was forgotten by the store "
                                             "{} times; try again later",
                                             connection_.bucket(), write.name, kSessionsMax));
}

// Where to send the parts: a path on our own endpoint, whatever host the answer names, so that
// tokens go nowhere else. It is a secret, as whoever has it may write.
Result<std::string> GcsUploader::session_of(const HttpAnswer& answer,
                                            const std::string& name) const {
  const std::string_view location = answer.header("Location");
  const size_t scheme = location.find("://");
  const size_t path = scheme == std::string_view::npos ? 0 : location.find('/', scheme + 3);
  const bool is_path = path < location.size() && location[path] == '/';
  if (!is_path || location.size() > kSessionBytesMax) {
    return connection_.not_a_store(answer, name);
  }
  return std::string(location.substr(path));
}

Result<HttpAnswer> GcsUploader::send_parts(const std::string& session, const Write& write) {
  for (int64_t at = 0;;) {
    ASSIGN_OR_RETURN(HttpAnswer sent, send_part(session, write.bytes, at));
    if (sent.status != 308) return sent;
    const std::optional<int64_t> stored = stored_bytes_of(sent);
    if (!stored || *stored > static_cast<int64_t>(write.bytes.size())) {
      return connection_.not_a_store(sent, write.name);
    }
    if (*stored <= at) {
      return fail(Code::unavailable,
                  fmt::format("the upload of gs://{}/{} does not get past byte {}; try again later",
                              connection_.bucket(), write.name, at));
    }
    at = *stored;
  }
}

// One part. While it is not known what became of it, the further attempts do not send it again but
// ask how much has arrived, which is answered in the same way. That nothing has is a failure like
// others: the part is sent again, until the transport's deadline.
Result<HttpAnswer> GcsUploader::send_part(const std::string& session, BytesView bytes, int64_t at) {
  const auto size = static_cast<int64_t>(bytes.size());
  const BytesView part =
      bytes.substr(static_cast<size_t>(at), static_cast<size_t>(std::min(part_bytes_, size - at)));
  // All bytes are there and the upload is not done: then only the question is left to send.
  const std::string range =
      part.empty()
          ? fmt::format("bytes */{}", size)
          : fmt::format("bytes {}-{}/{}", at, at + static_cast<int64_t>(part.size()) - 1, size);
  const CloudRequest first = connection_.request(
      {.method = "PUT", .path = session, .headers = {{"Content-Range", range}}, .body = part});
  const CloudRequest question =
      connection_.request({.method = "PUT",
                           .path = session,
                           .headers = {{"Content-Range", fmt::format("bytes */{}", size)}}});
  bool is_on_its_way = false;
  CloudRequest request;
  request.make = [&](bool refresh) {
    return std::exchange(is_on_its_way, true) ? question.make(refresh) : first.make(refresh);
  };
  request.judge = [&](HttpAnswer& answer) {
    const bool stands = answer.status == 308 && stored_bytes_of(answer) == at;
    if (!stands) return first.judge(answer);
    is_on_its_way = false;
    return Verdict::retry;
  };
  return connection_.transport().send(request);
}

Status GcsUploader::check_stored(const HttpAnswer& answer, const Write& write) {
  const std::optional<GcsObject> object = parse_gcs_object(answer.body);
  if (!object || object->name != write.name || !object->crc32c) {
    return connection_.not_a_store(answer, write.name);
  }
  const bool is_equal = object->size_bytes == static_cast<int64_t>(write.bytes.size()) &&
                        *object->crc32c == write.checksum;
  if (is_equal) return {};
  if (write.rule == Rule::only_new && !object->generation.empty()) {
    // Nobody could create the name again while the damaged bytes have it.
    const std::string path = fmt::format("{}?ifGenerationMatch={}",
                                         connection_.object_path(write.name), object->generation);
    const Result<HttpAnswer> removed = connection_.send({.method = "DELETE", .path = path});
    if (!removed) return removed.error();
  }
  return fail(Code::corrupt, fmt::format("gs://{}/{} was stored with another checksum than it was "
                                         "sent with; check what is between here and the store",
                                         connection_.bucket(), write.name));
}

// Part by part: a mapped file need not be in memory as a whole for it.
uint32_t GcsUploader::checksum(BytesView bytes) const {
  uint32_t sum = crc32c("");
  while (!bytes.empty()) {
    const BytesView part = bytes.substr(0, static_cast<size_t>(part_bytes_));
    sum = crc32c(part, sum);
    if (on_sent_) on_sent_(part);
    bytes.remove_prefix(part.size());
  }
  return sum;
}

Status GcsUploader::taken(const Write& write) {
  const Result<GcsObject> there = reader_.stat(write.name);
  ASSIGN_OR_RETURN(
      const Writer writer,
      writer_by(there ? Result<std::string>(there->nonce) : there.error(), write.nonce));
  if (writer == Writer::us) return {};
  return fail(Code::already_exists,
              fmt::format("gs://{}/{} is there already; remove it, or use another name",
                          connection_.bucket(), write.name));
}

}  // namespace tern
