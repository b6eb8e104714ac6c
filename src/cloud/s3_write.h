// Writing objects of a bucket: in one request, or in parts that become one object at the end.
#pragma once

#include <string>
#include <vector>

#include "cloud/bucket.h"
#include "cloud/s3_client.h"
#include "cloud/s3_read.h"
#include "core/result.h"

namespace tern {

enum class S3WriteMode {
  replace,
  create_only,  // If-None-Match: *
};

// Borrowed by a bucket; safe from any thread; every call blocks. Names have been checked.
class S3Writer {
 public:
  S3Writer(S3Client& client, S3Reader& reader, const BucketOptions& options)
      : client_(client), reader_(reader), options_(options) {}

  // As ObjectStore's put() and create(). No byte is copied. Of what fails half-way nothing stays:
  // an upload in parts is aborted, as far as the store can be reached.
  //
  // A create() whose answer was lost finds the name taken when it is sent again. It reads the
  // object back: equal bytes are its own. Writers who race must therefore write different bytes.
  Status write(const std::string& name, BytesView bytes, S3WriteMode mode);

 private:
  struct Upload {
    std::string name;
    std::string id;
    std::vector<std::string> etags;
  };

  Status write_whole(const std::string& name, BytesView bytes, S3WriteMode mode);
  Status write_in_parts(const std::string& name, BytesView bytes, S3WriteMode mode);
  // `aborted`: another creator was in the way, and the outcome is open.
  Status upload_once(const std::string& name, BytesView bytes, S3WriteMode mode);
  Result<Upload> begin(const std::string& name);
  Status send_parts(Upload& upload, BytesView bytes);
  Status complete(const Upload& upload, BytesView bytes, S3WriteMode mode);
  void abort(const Upload& upload);
  // For a create that found the name taken after `attempts` requests.
  Status taken_after(int64_t attempts, const std::string& name, BytesView bytes);
  size_t part_bytes_for(size_t size) const;

  S3Client& client_;
  S3Reader& reader_;
  const BucketOptions options_;
};

}  // namespace tern
