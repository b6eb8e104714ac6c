// What S3 says when it says no: read from an answer, judged for a retry, told to people.
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cloud/s3_place.h"
#include "cloud/transport.h"
#include "core/http_client.h"
#include "core/result.h"

namespace tern {

// <Error> of an answer; empty where the answer has none.
struct S3Problem {
  std::string code;     // "NoSuchKey"
  std::string message;  // the store's own words, as printable ASCII and not many
  std::string region;   // where the bucket is, if it says so
};
S3Problem read_s3_problem(const HttpAnswer& answer);

// For an answer that is not a success. What depends on the request (another region) is not here.
Verdict judge_s3_problem(const S3Problem& problem, int status);
// Whether the body was changed on its way: worth another attempt or two, not more.
bool is_damage(const S3Problem& problem);

// What was being done, for messages, and the permission that it needs: "s3:GetObject".
struct S3Deed {
  std::string_view verb;  // as in "may not read"
  std::string_view permission;
};
inline constexpr S3Deed kS3Read{"read", "s3:GetObject and s3:ListBucket"};
inline constexpr S3Deed kS3Write{"write", "s3:PutObject and s3:AbortMultipartUpload"};
inline constexpr S3Deed kS3List{"list", "s3:ListBucket"};
inline constexpr S3Deed kS3Remove{"remove", "s3:DeleteObject"};
inline constexpr S3Deed kS3MakeBucket{"make", "s3:CreateBucket"};
inline constexpr S3Deed kS3Uploads{"end unfinished uploads in",
                                   "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload"};

// Of what the request was.
struct S3Question {
  S3Deed deed;
  std::string name;         // the object's; empty: the bucket
  std::string credentials;  // which, and where they are from; nothing secret
  int64_t unix_ms = 0;      // by this machine's clock, when the answer came
};

// For an answer that is not the one hoped for. Codes are Bucket's.
Error s3_error(const HttpAnswer& answer, const S3Question& question, const S3Place& place);
// For an answer that no object store gives.
Error not_an_s3(const HttpAnswer& answer, const S3Place& place);

}  // namespace tern
