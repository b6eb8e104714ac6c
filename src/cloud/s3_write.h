// Writing objects of a bucket: in one request, or in parts that become one object at the end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cloud/bucket.h"
#include "cloud/nonce.h"
#include "cloud/s3_client.h"
#include "cloud/s3_read.h"
#include "core/result.h"

namespace tern {

enum class S3WriteMode {
  replace,
  create_only,  // If-None-Match: *
};

// Of the answer to CompleteMultipartUpload, whose status it mends: S3 begins its 200 before it
// knows the outcome, and may then say no. After a conflict the parts are gone, so that the same
// request again cannot help. Nothing: as any other answer is judged.
std::optional<Verdict> judge_s3_completion(HttpAnswer& answer);

// Borrowed by a bucket; safe from any thread; every call blocks. Names have been checked.
class S3Writer {
 public:
  S3Writer(S3Client& client, S3Reader& reader, const BucketOptions& options)
      : client_(client), reader_(reader), options_(options) {}

  // As ObjectStore's put() and create(). No byte is copied. Of what fails half-way nothing stays:
  // an upload in parts is aborted, as far as the store can be reached.
  //
  // A create() that finds the name taken may have taken it itself: its object has its nonce.
  Status write(const std::string& name, BytesView bytes, S3WriteMode mode);

 private:
  struct Write {
    const std::string& name;
    BytesView bytes;
    S3WriteMode mode;
    std::string nonce;
  };
  struct Upload {
    const Write& write;
    std::string id;
    std::vector<std::string> etags;
  };

  Status write_whole(const Write& write);
  Status write_in_parts(const Write& write);
  // `aborted`: another creator was in the way, and the outcome is open.
  Status upload_once(const Write& write);
  Result<Upload> begin(const Write& write);
  Status send_parts(Upload& upload);
  Status complete(const Upload& upload);
  void abort(const Upload& upload);
  Result<Writer> writer_of_what_is_there(const Write& write);
  // For a create that was told so.
  Status taken(const Write& write);
  size_t part_bytes_for(size_t size) const;

  S3Client& client_;
  S3Reader& reader_;
  const BucketOptions options_;
};

}  // namespace tern
