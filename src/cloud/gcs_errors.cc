#include "cloud/gcs_errors.h"

#include <fmt/format.h>

#include "cloud/gcs_json.h"

namespace tern {
namespace {

GcsComplaint complaint_of(const HttpAnswer& answer) {
  if (std::optional<GcsComplaint> complaint = parse_gcs_complaint(answer.body)) return *complaint;
  // Bytes are asked for with alt=media, whose errors are plain lines.
  return {.reason = "", .message = shown_text(answer.body)};
}

bool is_rate_limit(const std::string& reason) {
  return reason == "rateLimitExceeded" || reason == "userRateLimitExceeded";
}

Error refused_credentials(const GcsComplaint& complaint, const GcsPlace& place) {
  return fail(Code::permission_denied,
              fmt::format("{} does not accept the credentials for {} (401: {}); they are {}: "
                          "renew them, and check this machine's clock",
                          place.endpoint, place.to_string(), complaint.message, place.credentials));
}

Error forbidden(const GcsComplaint& complaint, const GcsAction& action, const GcsPlace& place) {
  const std::string refusal = fmt::format(
      "no right to {} {} ({}: {}) with {}", action.verb, place.to_string(),
      complaint.reason.empty() ? "403" : complaint.reason, complaint.message, place.credentials);
  if (complaint.reason == "quotaExceeded") {
    return fail(Code::exhausted, refusal + "; raise the quota in Google's console");
  }
  if (complaint.reason == "insufficientPermissions" || complaint.reason == "insufficientScopes") {
    return fail(Code::permission_denied,
                refusal +
                    "; the token's scopes are too narrow: give the machine the access scope "
                    "'storage-rw' or 'cloud-platform'");
  }
  return fail(
      Code::permission_denied,
      fmt::format("{}; grant {}, for example by the role roles/storage.{}", refusal,
                  action.permission, action.verb == kGcsMakeBucket.verb ? "admin" : "objectUser"));
}

Error absent(const HttpAnswer& answer, const GcsAction& action, const GcsPlace& place) {
  // What is written need not be there before, so it is not what is missing.
  const bool is_write = action.verb == kGcsWrite.verb;
  if (place.object.empty() || is_write || is_bucket_absent(answer)) {
    return fail(Code::not_found,
                fmt::format("there is no bucket gs://{}; check the name, or make it with 'tern "
                            "store mb gs://{}'",
                            place.bucket, place.bucket));
  }
  return fail(Code::not_found, fmt::format("there is no {}; 'tern store ls gs://{}' shows what is "
                                           "there",
                                           place.to_string(), place.bucket));
}

}  // namespace

bool is_web_page(const HttpAnswer& answer) {
  // Google itself calls its plain lines text/html.
  return answer.body.starts_with('<');
}

bool is_bucket_absent(const HttpAnswer& answer) {
  return answer.status == 404 &&
         complaint_of(answer).message.find("bucket does not exist") != std::string::npos;
}

std::string GcsPlace::to_string() const {
  return object.empty() ? "gs://" + bucket : "gs://" + bucket + "/" + object;
}

Error not_a_gcs(const HttpAnswer& answer, const GcsPlace& place) {
  return fail(Code::failed_precondition,
              fmt::format("{} answered (status {}, '{}') what no Google Cloud Storage answers: an "
                          "endpoint that is not an object store; check STORAGE_EMULATOR_HOST and "
                          "your proxies",
                          place.endpoint, answer.status,
                          shown_text(std::string_view(answer.body).substr(0, 60))));
}

Error gcs_error(const HttpAnswer& answer, const GcsAction& action, const GcsPlace& place) {
  const GcsComplaint complaint = complaint_of(answer);
  const std::string what = fmt::format("{} {}", action.verb, place.to_string());
  switch (answer.status) {
    case 400:
    case 411:
    case 413:
      if (is_web_page(answer)) return not_a_gcs(answer, place);
      return fail(Code::invalid,
                  fmt::format("{}: {} refuses the request ({}: {}); check the name "
                              "of the bucket",
                              what, place.endpoint, answer.status, complaint.message));
    case 401: return refused_credentials(complaint, place);
    case 403:
      if (is_rate_limit(complaint.reason)) break;
      return forbidden(complaint, action, place);
    case 404:
      if (is_web_page(answer)) return not_a_gcs(answer, place);
      return absent(answer, action, place);
    case 409:
      return fail(Code::aborted, fmt::format("{}: another change was made at the same time ({}); "
                                             "try again",
                                             what, complaint.message));
    case 412:
      return fail(Code::failed_precondition,
                  fmt::format("{}: {} changed meanwhile ({}); try again", what, place.to_string(),
                              complaint.message));
    case 408:
    case 429: break;
    default:
      if (answer.status < 500) return not_a_gcs(answer, place);
  }
  return fail(Code::unavailable,
              fmt::format("{}: {} answers {} ({}) again and again; try later", what, place.endpoint,
                          answer.status, complaint.message));
}

Verdict judge_gcs(const HttpAnswer& answer) {
  if (answer.status == 401) return Verdict::new_tokens;
  if (answer.status == 403 && is_rate_limit(complaint_of(answer).reason)) return Verdict::throttle;
  return judge_status(answer.status);
}

bool is_checksum_complaint(const HttpAnswer& answer) {
  if (answer.status != 400) return false;
  const std::string message = complaint_of(answer).message;
  for (const char* word : {"CRC32C", "crc32c", "MD5", "md5"}) {
    if (message.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace tern
