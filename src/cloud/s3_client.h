// Requests to one bucket: addressed, signed and judged as S3 has it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cloud/aws_credentials.h"
#include "cloud/s3_error.h"
#include "cloud/s3_place.h"
#include "cloud/transport.h"
#include "core/mutex.h"

namespace tern {

struct S3Request {
  std::string method = "GET";
  std::string name;  // of the object; empty: the bucket
  S3Query query;
  std::vector<HttpHeader> headers;
  BytesView body;  // must outlive the request
  // Whose body is an object's: checked by S3Place::crc32c instead of its signature.
  bool is_upload = false;
  int64_t answer_bytes_max = int64_t{32} << 20;
  // Looks at each answer first, and may take its body. Nothing: judged as all others are.
  std::function<std::optional<Verdict>(HttpAnswer&)> judge_first = nullptr;
  RangeSink on_range = nullptr;  // as HttpRequest's
};

// Owned by a bucket; safe from any thread. The transport outlives it.
//
// A bucket that is in another region than was thought is found there: the first answer says so, and
// from then on all requests go there.
class S3Client {
 public:
  S3Client(S3Place place, std::unique_ptr<AwsCredentials> credentials, CloudTransport& transport);

  // Blocks. An answer with any status, or the transport's errors and the credentials'.
  Result<HttpAnswer> send(S3Request request);
  // All of them, many at once; answers in their order.
  std::vector<Result<HttpAnswer>> send_all(std::vector<S3Request> requests);

  // What an answer that was not hoped for means, for people.
  Error error(const HttpAnswer& answer, const S3Deed& deed, const std::string& name = "");

  AwsCredentials& credentials() { return *credentials_; }
  Clock& clock() { return transport_.clock(); }
  const std::string& bucket() const { return place_.bucket; }
  bool uses_crc32c() const { return place_.crc32c; }
  // With the region where the bucket was found.
  S3Place place();

 private:
  struct Exchange;

  CloudRequest make_request(S3Request request);
  Result<HttpRequest> sign(Exchange& exchange, bool refresh);
  Verdict judge(Exchange& exchange, HttpAnswer& answer);
  // Whether the answer says that the bucket is in another region, which is then used.
  bool moves_region(Exchange& exchange, const HttpAnswer& answer, const S3Problem& problem);

  const S3Place place_;
  const std::unique_ptr<AwsCredentials> credentials_;
  CloudTransport& transport_;

  Mutex mutex_;
  std::string region_ GUARDED_BY(mutex_);
};

// As the header x-amz-checksum-crc32c has it.
std::string crc32c_text(BytesView bytes);

}  // namespace tern
