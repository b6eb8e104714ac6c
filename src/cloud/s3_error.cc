#include "cloud/s3_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cloud/xml.h"
#include "core/http_date.h"
#include "core/system_files.h"

namespace tern {
namespace {

constexpr size_t kErrorBytesMax = 64 << 10;  // the longest of AWS's are a few KB
constexpr size_t kShownMax = 160;

bool is_one_of(std::string_view code, std::initializer_list<std::string_view> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

bool is_expired(const S3Problem& problem) {
  return is_one_of(problem.code, {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"});
}

// The last is versitygw's.
bool is_unknown_key(const S3Problem& problem) {
  return is_one_of(problem.code, {"InvalidAccessKeyId", "InvalidAccessKey", "NoSuchAccessKey",
                                  "XAdminUserNotFound"});
}

// What the store says, in brackets: the code, and its own words.
std::string in_brackets(const S3Problem& problem, int status) {
  if (problem.code.empty()) return fmt::format("(status {})", status);
  if (problem.message.empty()) return fmt::format("({})", problem.code);
  return fmt::format("({}: {})", problem.code, problem.message);
}

std::string shown_target(const S3Question& question, const S3Place& place) {
  if (question.name.empty()) return "s3://" + place.bucket;
  return fmt::format("s3://{}/{}", place.bucket, question.name);
}

Error wrong_keys(const S3Problem& problem, const S3Question& question, const S3Place& place) {
  const std::string_view code = problem.code;
  std::string why = "refuses them";
  std::string next = "check them";
  if (is_unknown_key(problem)) {
    why = "does not know this access key";
    next = "check AWS_ACCESS_KEY_ID or the profile, and that the endpoint is the one they are for";
  } else if (code == "SignatureDoesNotMatch") {
    why = "finds the signature wrong, so the secret key is not the one of this access key";
    next = "check AWS_SECRET_ACCESS_KEY or the profile (no blank or line end in it?)";
  } else if (is_expired(problem)) {
    why = "says that the session token has expired";
    next = "log in again, or take keys that renew themselves (a role)";
  } else if (code == "InvalidToken") {
    why = "finds the session token wrong";
    next = "check AWS_SESSION_TOKEN; keys without one need it unset";
  }
  return fail(Code::permission_denied,
              fmt::format("{} {} ({}); used was {}; {}", place.shown_endpoint(), why, code,
                          question.credentials, next));
}

Error not_allowed(const S3Problem& problem, int status, const S3Question& question,
                  const S3Place& place) {
  return fail(
      Code::permission_denied,
      fmt::format("these credentials may not {} {} {}; used was {}; give them {} on bucket "
                  "'{}'",
                  question.deed.verb, shown_target(question, place), in_brackets(problem, status),
                  question.credentials, question.deed.permission, place.bucket));
}

// By the store's clock, which the answer has in its Date header.
Error wrong_clock(const HttpAnswer& answer, const S3Question& question, const S3Place& place) {
  std::string by = "too far from";
  if (const std::optional<int64_t> theirs = parse_http_date(answer.header("Date"))) {
    const int64_t off_s = (question.unix_ms - *theirs) / 1000;
    by = fmt::format("{} minutes and {} seconds {}", std::abs(off_s) / 60, std::abs(off_s) % 60,
                     off_s < 0 ? "behind" : "ahead of");
  }
  return fail(Code::failed_precondition,
              fmt::format("this machine's clock is {} {}'s, which refuses requests that differ "
                          "by more than 15 minutes; set the clock (timedatectl set-ntp true)",
                          by, place.shown_endpoint()));
}

Error elsewhere(const HttpAnswer& answer, const S3Problem& problem, const S3Place& place) {
  std::string region(answer.header("x-amz-bucket-region"));
  if (region.empty()) region = problem.region;
  const std::string next = is_region(region) ? "set AWS_REGION=" + region
                                             : "set AWS_REGION to the region the bucket is in";
  return fail(Code::failed_precondition,
              fmt::format("bucket '{}' is not at {} {}; {}", place.bucket, place.shown_endpoint(),
                          in_brackets(problem, answer.status), next));
}

Error not_there(const S3Problem& problem, const S3Question& question, const S3Place& place) {
  if (problem.code == "NoSuchBucket" || question.name.empty()) {
    return fail(Code::not_found,
                fmt::format("there is no bucket '{}' at {}; make it with `tern store mb s3://{}`, "
                            "or correct the name",
                            place.bucket, place.shown_endpoint(), place.bucket));
  }
  return fail(Code::not_found,
              fmt::format("there is no object {}; `tern store ls s3://{}` shows what is there",
                          shown_target(question, place), place.bucket));
}

std::optional<Error> error_by_code(const HttpAnswer& answer, const S3Problem& problem,
                                   const S3Question& question, const S3Place& place) {
  const std::string_view code = problem.code;
  const std::string says = in_brackets(problem, answer.status);
  if (is_unknown_key(problem) || is_expired(problem) ||
      is_one_of(code, {"SignatureDoesNotMatch", "InvalidToken", "InvalidSecurity"})) {
    return wrong_keys(problem, question, place);
  }
  if (is_one_of(code, {"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"})) {
    return wrong_clock(answer, question, place);
  }
  if (is_one_of(code, {"NoSuchBucket", "NoSuchKey", "NotFound"})) {
    return not_there(problem, question, place);
  }
  if (is_one_of(code, {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed",
                       "IllegalLocationConstraintException", "Redirect"})) {
    return elsewhere(answer, problem, place);
  }
  if (is_one_of(code, {"EntityTooLarge", "MaxSizeExceeded"})) {
    return fail(Code::invalid, fmt::format("{} is larger than the store takes {}; keep less in one "
                                           "object",
                                           shown_target(question, place), says));
  }
  if (answer.status == 507 || code.find("Quota") != std::string_view::npos ||
      code.find("Full") != std::string_view::npos) {
    return fail(Code::exhausted, fmt::format("{} has no more room {}; remove what is not needed or "
                                             "raise the limit",
                                             place.shown_endpoint(), says));
  }
  if (is_damage(problem)) {
    return fail(Code::corrupt, fmt::format("{} arrived changed each time it was sent {}; check the "
                                           "network and its proxies",
                                           shown_target(question, place), says));
  }
  if (code == "NoSuchUpload") {
    return fail(Code::aborted, fmt::format("the upload of {} was ended by somebody else (a rule of "
                                           "the bucket?); write it again",
                                           shown_target(question, place)));
  }
  if (code == "InvalidLocationConstraint") {
    return fail(
        Code::failed_precondition,
        fmt::format("{} has no region '{}' {}; set AWS_REGION to one that it has (us-east-1 "
                    "if it is a server of your own)",
                    place.shown_endpoint(), place.region, says));
  }
  if (code == "BucketAlreadyExists") {
    return fail(Code::already_exists,
                fmt::format("the bucket name '{}' is taken by somebody else; choose another",
                            place.bucket));
  }
  return std::nullopt;
}

Error error_by_status(const HttpAnswer& answer, const S3Problem& problem,
                      const S3Question& question, const S3Place& place) {
  const int status = answer.status;
  const std::string says = in_brackets(problem, status);
  if (status == 401 || status == 403) return not_allowed(problem, status, question, place);
  if (status == 404 && problem.code.empty()) return not_there(problem, question, place);
  if (status == 301 || status == 302 || status == 307) return elsewhere(answer, problem, place);
  if (status == 429 || status == 503) {
    return fail(Code::unavailable, fmt::format("{} asks for fewer requests {} and went on asking; "
                                               "try again later, or with fewer at once",
                                               place.shown_endpoint(), says));
  }
  if (judge_s3_problem(problem, status) != Verdict::done) {
    return fail(Code::unavailable,
                fmt::format("{} cannot {} {} just now {}; try again later", place.shown_endpoint(),
                            question.deed.verb, shown_target(question, place), says));
  }
  if (status == 501 || status == 405 || problem.code == "NotImplemented") {
    return fail(Code::failed_precondition,
                fmt::format("{} does not have what is needed to {} {} {}; use another store",
                            place.shown_endpoint(), question.deed.verb,
                            shown_target(question, place), says));
  }
  return fail(
      Code::failed_precondition,
      fmt::format("{} refuses to {} {} {}; check the bucket's settings and the endpoint",
                  place.shown_endpoint(), question.deed.verb, shown_target(question, place), says));
}

}  // namespace

S3Problem read_s3_problem(const HttpAnswer& answer) {
  if (answer.body.empty() || answer.body.size() > kErrorBytesMax) return {};
  const Result<XmlNode> xml = parse_xml(answer.body);
  if (!xml || xml->name != "Error") return {};
  S3Problem problem;
  problem.code = printable_line(xml->text_of("Code")).substr(0, 64);
  problem.message = printable_line(xml->text_of("Message")).substr(0, kShownMax);
  problem.region = xml->text_of("Region");
  if (!is_region(problem.region)) problem.region.clear();
  return problem;
}

bool is_damage(const S3Problem& problem) {
  return is_one_of(problem.code, {"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody",
                                  "InvalidDigest", "XAmzContentChecksumMismatch"});
}

Verdict judge_s3_problem(const S3Problem& problem, int status) {
  // Keys in a file may have been replaced there since it was read, as administrators do.
  if (is_expired(problem) || is_unknown_key(problem) || problem.code == "SignatureDoesNotMatch") {
    return Verdict::new_tokens;
  }
  if (is_one_of(problem.code, {"SlowDown", "SlowDownRead", "SlowDownWrite", "ServiceUnavailable",
                               "Throttling", "TooManyRequests", "RequestLimitExceeded"})) {
    return Verdict::throttle;
  }
  if (is_one_of(problem.code, {"InternalError", "RequestTimeout", "OperationAborted",
                               "ConditionalRequestConflict"})) {
    return Verdict::retry;
  }
  return judge_status(status);
}

Error not_an_s3(const HttpAnswer& answer, const S3Place& place) {
  const std::string type = printable_line(answer.header("Content-Type")).substr(0, 40);
  const std::string begins = printable_line(answer.body).substr(0, 60);
  return fail(Code::failed_precondition,
              fmt::format("{} does not answer as an object store does (status {}, {}, beginning "
                          "'{}'); check the endpoint: AWS_ENDPOINT_URL, the profile's endpoint_url",
                          place.shown_endpoint(), answer.status,
                          type.empty() ? "no content type" : type, begins));
}

Error s3_error(const HttpAnswer& answer, const S3Question& question, const S3Place& place) {
  const S3Problem problem = read_s3_problem(answer);
  if (std::optional<Error> error = error_by_code(answer, problem, question, place)) return *error;
  // A page for people, or success where something else was wanted: some other server's. Those that
  // may help to try again can come from anything on the way (a proxy, a balancer).
  const bool foreign = problem.code.empty() && (!answer.body.empty() || answer.status / 100 == 2);
  if (foreign && judge_status(answer.status) == Verdict::done) return not_an_s3(answer, place);
  return error_by_status(answer, problem, question, place);
}

}  // namespace tern
