#include "cloud/gcs_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/crc32c.h"

namespace tern {
namespace {

constexpr int64_t kPartUnit = 256 << 10;  // all parts but the last are multiples of it
constexpr int kSendsMax = 3;
constexpr int kSessionsMax = 4;
constexpr int kStuckMax = 5;
constexpr size_t kSessionBytesMax = 8192;

// REQUIRES: name is UTF-8, as every object name is.
std::string describe(const std::string& name, BytesView bytes) {
  return nlohmann::json{{"name", name},
                        {"contentType", "application/octet-stream"},
                        {"crc32c", crc32c_text(crc32c(bytes))}}
      .dump();
}

std::string query_of(const char* type, const std::string& name, GcsUploader::Rule rule) {
  return fmt::format("?uploadType={}&name={}{}", type, percent_encode(name),
                     rule == GcsUploader::Rule::only_new ? "&ifGenerationMatch=0" : "");
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
      part_bytes_(std::max(options.part_bytes / kPartUnit, int64_t{1}) * kPartUnit) {}

Status GcsUploader::upload(const std::string& name, BytesView bytes, Rule rule) {
  bool may_be_ours = false;
  for (int sends = 0; sends < kSendsMax; ++sends) {
    const bool is_small = static_cast<int64_t>(bytes.size()) <= whole_bytes_max_;
    ASSIGN_OR_RETURN(const Outcome outcome,
                     is_small ? send_whole(name, bytes, rule) : send_in_parts(name, bytes, rule));
    may_be_ours = may_be_ours || outcome.may_be_ours;
    const int status = outcome.answer.status;
    if (status == 200 || status == 201) return check_stored(outcome.answer, name, bytes, rule);
    if (status == 412 && rule == Rule::only_new) return taken(name, bytes, may_be_ours);
    if (!is_checksum_complaint(outcome.answer)) {
      return connection_.error_of(outcome.answer, kGcsWrite, name);
    }
  }
  return fail(Code::corrupt, fmt::format("gs://{}/{} arrived damaged {} times, by its checksum; "
                                         "check this machine's network and memory",
                                         connection_.bucket(), name, kSendsMax));
}

Result<GcsUploader::Outcome> GcsUploader::send_whole(const std::string& name, BytesView bytes,
                                                     Rule rule) {
  const MultipartBody made = make_multipart_body(describe(name, bytes), bytes);
  ASSIGN_OR_RETURN(
      CloudAnswer sent,
      connection_.send({.method = "POST",
                        .path = connection_.upload_path() + query_of("multipart", name, rule),
                        .headers = {{"Content-Type", made.content_type}},
                        .body = made.body}));
  return Outcome{std::move(sent.answer), sent.attempts > 1};
}

Result<GcsUploader::Outcome> GcsUploader::send_in_parts(const std::string& name, BytesView bytes,
                                                        Rule rule) {
  const std::string description = describe(name, bytes);
  bool may_be_ours = false;
  for (int sessions = 0; sessions < kSessionsMax; ++sessions) {
    ASSIGN_OR_RETURN(
        CloudAnswer begun,
        connection_.send({.method = "POST",
                          .path = connection_.upload_path() + query_of("resumable", name, rule),
                          .headers = {{"Content-Type", "application/json; charset=UTF-8"},
                                      {"X-Upload-Content-Type", "application/octet-stream"},
                                      {"X-Upload-Content-Length", std::to_string(bytes.size())}},
                          .body = description}));
    if (begun.answer.status != 200 && begun.answer.status != 201) {
      return Outcome{std::move(begun.answer), may_be_ours};
    }
    ASSIGN_OR_RETURN(const std::string session, session_of(begun.answer, name));
    ASSIGN_OR_RETURN(Outcome outcome, send_parts(session, name, bytes));
    outcome.may_be_ours = outcome.may_be_ours || may_be_ours;
    if (outcome.answer.status != 404 && outcome.answer.status != 410) return outcome;
    may_be_ours = true;  // a session also ends by being finished
  }
  return fail(Code::unavailable, fmt::format("the upload of gs://{}/{} was forgotten by the store "
                                             "{} times; try again later",
                                             connection_.bucket(), name, kSessionsMax));
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

Result<GcsUploader::Outcome> GcsUploader::send_parts(const std::string& session,
                                                     const std::string& name, BytesView bytes) {
  int64_t at = 0;
  int stuck = 0;
  bool may_be_ours = false;
  while (stuck < kStuckMax) {
    ASSIGN_OR_RETURN(CloudAnswer sent, send_part(session, bytes, at));
    may_be_ours = may_be_ours || sent.attempts > 1;
    if (sent.answer.status != 308) return Outcome{std::move(sent.answer), may_be_ours};
    const std::optional<int64_t> stored = stored_bytes_of(sent.answer);
    if (!stored || *stored > static_cast<int64_t>(bytes.size())) {
      return connection_.not_a_store(sent.answer, name);
    }
    stuck = *stored > at ? 0 : stuck + 1;
    at = *stored;
  }
  return fail(Code::unavailable, fmt::format("the upload of gs://{}/{} does not get past byte {}; "
                                             "try again later",
                                             connection_.bucket(), name, at));
}

// One part. Once its answer is lost, the further attempts do not send it again but ask how much
// has arrived, which is answered in the same way.
Result<CloudAnswer> GcsUploader::send_part(const std::string& session, BytesView bytes,
                                           int64_t at) {
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
  CloudRequest request;
  request.judge = first.judge;
  request.make = [&, asked = std::make_shared<bool>(false)](bool refresh) {
    const bool is_first = !*asked;
    *asked = true;
    return is_first ? first.make(refresh) : question.make(refresh);
  };
  return connection_.transport().send(request);
}

Status GcsUploader::check_stored(const HttpAnswer& answer, const std::string& name, BytesView bytes,
                                 Rule rule) {
  const std::optional<GcsObject> object = parse_gcs_object(answer.body);
  if (!object || object->name != name || !object->crc32c) {
    return connection_.not_a_store(answer, name);
  }
  const bool is_equal =
      object->size_bytes == static_cast<int64_t>(bytes.size()) && *object->crc32c == crc32c(bytes);
  if (is_equal) return {};
  if (rule == Rule::only_new && !object->generation.empty()) {
    // Nobody could create the name again while the damaged bytes have it.
    const std::string path =
        fmt::format("{}?ifGenerationMatch={}", connection_.object_path(name), object->generation);
    const Result<CloudAnswer> removed = connection_.send({.method = "DELETE", .path = path});
    if (!removed) return removed.error();
  }
  return fail(Code::corrupt, fmt::format("gs://{}/{} was stored with another checksum than it was "
                                         "sent with; check what is between here and the store",
                                         connection_.bucket(), name));
}

Status GcsUploader::taken(const std::string& name, BytesView bytes, bool may_be_ours) {
  if (may_be_ours) {
    const Result<bool> is_ours = reader_.holds(name, bytes);
    if (is_ours && *is_ours) return {};
    if (!is_ours && is_ours.error().code != Code::not_found) return is_ours.error();
  }
  return fail(Code::already_exists,
              fmt::format("gs://{}/{} is there already; remove it, or use another name",
                          connection_.bucket(), name));
}

}  // namespace tern
