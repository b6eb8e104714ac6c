// Where a bucket is: its endpoint, its region, and how the two and an object's name make a URL.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cloud/aws_profile.h"
#include "cloud/open_store.h"
#include "core/result.h"

namespace tern {

// Names and values as plain text; url() encodes them. An empty value is a name alone: "?uploads".
using S3Query = std::vector<std::pair<std::string, std::string>>;

// A plain value. The region is apart, as a bucket may turn out to be in another one.
struct S3Place {
  std::string bucket;
  std::string endpoint;  // "http://host:9000", no slash at its end; empty: AWS's own
  std::string region = "us-east-1";
  bool virtual_host = true;  // bucket.host/name, else host/bucket/name
  // Bodies are sent with a CRC-32C that the store checks, and are not signed. Where it is false
  // their SHA-256 is signed, which every S3 store checks and which costs more time.
  bool crc32c = true;

  // The object's address, or the bucket's for an empty name.
  std::string url(const std::string& in_region, const std::string& name,
                  const S3Query& query) const;
  // For people: "http://host:9000" or "AWS (eu-west-1)".
  std::string shown_endpoint() const;
};

// The endpoint is AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint_url; the region
// AWS_REGION, AWS_DEFAULT_REGION or the profile's. AWS's own are spoken to as bucket.host, unless
// the bucket's name has dots, which no certificate covers; other endpoints as host/bucket, which
// all of them understand. AWS_S3_ADDRESSING_STYLE or the profile's s3.addressing_style (path,
// virtual or auto) says otherwise. AWS_REQUEST_CHECKSUM_CALCULATION=when_supported asks any
// endpoint for CRC-32C, when_required none. `invalid` for a value that is none of these.
Result<S3Place> find_s3_place(const std::string& bucket, const CloudSurroundings& surroundings,
                              const AwsProfile& profile);

// Whether text can be a region: it becomes part of a host's name, and stores suggest it.
bool is_region(std::string_view text);

}  // namespace tern
