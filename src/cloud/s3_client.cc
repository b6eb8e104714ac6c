#include "cloud/s3_client.h"

#include <utility>

#include "cloud/sigv4.h"
#include "core/crc32c.h"
#include "core/crypto.h"
#include "core/hash.h"

namespace tern {
namespace {

constexpr int kDamagedMax = 3;

}  // namespace

// One request with what was learned of it; its attempts are one after another.
struct S3Client::Exchange {
  S3Request request;
  std::string payload_hash;  // made at the first attempt
  std::string region;        // of the last attempt
  bool has_moved = false;
  int damaged = 0;
};

S3Client::S3Client(S3Place place, std::unique_ptr<AwsCredentials> credentials,
                   CloudTransport& transport)
    : place_(std::move(place)),
      credentials_(std::move(credentials)),
      transport_(transport),
      region_(place_.region) {}

Result<HttpAnswer> S3Client::send(S3Request request) {
  return transport_.send(make_request(std::move(request)));
}

std::vector<Result<HttpAnswer>> S3Client::send_all(std::vector<S3Request> requests) {
  std::vector<CloudRequest> made;
  made.reserve(requests.size());
  for (S3Request& request : requests) made.push_back(make_request(std::move(request)));
  return transport_.send_all(made);
}

Error S3Client::error(const HttpAnswer& answer, const S3Deed& deed, const std::string& name) {
  const Result<std::string> who = credentials_->describe();
  const S3Question question = {deed, name, who ? *who : "no credentials",
                               transport_.clock().unix_ms()};
  return s3_error(answer, question, place());
}

S3Place S3Client::place() {
  S3Place place = place_;
  MutexLock lock(mutex_);
  place.region = region_;
  return place;
}

CloudRequest S3Client::make_request(S3Request request) {
  auto exchange = std::make_shared<Exchange>();
  exchange->request = std::move(request);
  return {.make = [this, exchange](bool refresh) { return sign(*exchange, refresh); },
          .judge = [this, exchange](HttpAnswer& answer) { return judge(*exchange, answer); }};
}

Result<HttpRequest> S3Client::sign(Exchange& exchange, bool refresh) {
  const S3Request& request = exchange.request;
  ASSIGN_OR_RETURN(const AwsKeys keys, credentials_->keys(refresh));
  const bool by_crc32c = request.is_upload && place_.crc32c;
  if (exchange.payload_hash.empty()) {
    if (by_crc32c) {
      exchange.payload_hash = kUnsignedPayload;
    } else {
      exchange.payload_hash =
          request.body.empty() ? std::string(kEmptyPayloadHash) : to_hex(sha256(request.body));
    }
  }
  {
    MutexLock lock(mutex_);
    exchange.region = region_;
  }
  HttpRequest made{.method = request.method,
                   .url = place_.url(exchange.region, request.name, request.query),
                   .headers = request.headers,
                   .body = request.body,
                   .answer_bytes_max = request.answer_bytes_max,
                   .on_range = request.on_range};
  made.headers.push_back({"x-amz-content-sha256", exchange.payload_hash});
  if (by_crc32c) made.headers.push_back({"x-amz-checksum-crc32c", crc32c_text(request.body)});
  sign_v4(made, keys, {exchange.region}, transport_.clock().unix_ms(), exchange.payload_hash);
  return made;
}

Verdict S3Client::judge(Exchange& exchange, HttpAnswer& answer) {
  if (exchange.request.judge_first) {
    if (const std::optional<Verdict> verdict = exchange.request.judge_first(answer)) {
      return *verdict;
    }
  }
  if (answer.status / 100 == 2) return Verdict::done;
  const S3Problem problem = read_s3_problem(answer);
  if (moves_region(exchange, answer, problem)) return Verdict::retry;
  if (is_damage(problem) && ++exchange.damaged <= kDamagedMax) return Verdict::retry;
  // HEAD has no body to say it in: 400 is what S3 answers for an expired token.
  if (exchange.request.method == "HEAD" && answer.status == 400) return Verdict::new_tokens;
  return judge_s3_problem(problem, answer.status);
}

bool S3Client::moves_region(Exchange& exchange, const HttpAnswer& answer,
                            const S3Problem& problem) {
  const bool may = answer.status == 301 || answer.status == 307 || answer.status == 400;
  if (!may || exchange.has_moved) return false;
  std::string region(answer.header("x-amz-bucket-region"));
  if (region.empty()) region = problem.region;
  if (!is_region(region) || region == exchange.region) return false;
  exchange.has_moved = true;
  MutexLock lock(mutex_);
  region_ = region;
  return true;
}

std::string crc32c_text(BytesView bytes) {
  const uint32_t crc = crc32c(bytes);
  const char big_endian[4] = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16),
                              static_cast<char>(crc >> 8), static_cast<char>(crc)};
  return base64(BytesView(big_endian, 4));
}

}  // namespace tern
