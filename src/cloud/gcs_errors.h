// What Google Cloud Storage means when it says no, as Errors that say what to do next.
#pragma once

#include <string>
#include <string_view>

#include "cloud/transport.h"
#include "core/http_client.h"
#include "core/result.h"

namespace tern {

// What was being done, in words and as the permission that it needs.
struct GcsAction {
  std::string_view verb;
  std::string_view permission;
};

inline constexpr GcsAction kGcsRead{"read", "storage.objects.get"};
inline constexpr GcsAction kGcsList{"list", "storage.objects.list"};
inline constexpr GcsAction kGcsWrite{
    "write", "storage.objects.create (and storage.objects.delete, to replace)"};
inline constexpr GcsAction kGcsRemove{"remove", "storage.objects.delete"};
inline constexpr GcsAction kGcsMakeBucket{"make", "storage.buckets.create"};

// Of what the request was.
struct GcsPlace {
  std::string endpoint;
  std::string bucket;
  std::string object;       // empty: the bucket
  std::string credentials;  // where they are from; nothing secret

  std::string to_string() const;  // gs://bucket/object
};

// For an answer that is not the one that was hoped for.
Error gcs_error(const HttpAnswer& answer, const GcsAction& action, const GcsPlace& place);
// For an answer that no such store gives.
Error not_a_gcs(const HttpAnswer& answer, const GcsPlace& place);

// Whether a 404 is about the bucket: else it is about the object.
bool is_bucket_absent(const HttpAnswer& answer);
// Whether the answer is a page for a browser, which no object store sends.
bool is_web_page(const HttpAnswer& answer);

// 401: with a new token; rate limits, also those that come as 403: slower.
Verdict judge_gcs(const HttpAnswer& answer);

// The store compared the checksum we sent with the bytes that arrived: they were damaged on the
// way.
bool is_checksum_complaint(const HttpAnswer& answer);

}  // namespace tern
