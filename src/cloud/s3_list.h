// The XML of S3's answers: which objects there are, which uploads, what could not be removed, and
// what became of an upload in parts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cloud/bucket.h"
#include "core/bytes.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

struct S3ListPage {
  std::vector<ObjectInfo> objects;
  std::string next;  // the token of the next page; empty: this is the last
};
// Of ListObjectsV2, also objects whose names are none of ours (folders' markers, "a//b"). `corrupt`
// for what is not such a page.
Result<S3ListPage> parse_s3_list(BytesView xml);

struct S3UploadPage {
  std::vector<OpenUpload> uploads;
  std::string next_name;  // both empty: this is the last
  std::string next_id;
};
Result<S3UploadPage> parse_s3_uploads(BytesView xml);

// The body of DeleteObjects. REQUIRES: at most 1000 names, and legal ones.
std::string delete_objects_xml(std::span<const std::string> names);

// The names that DeleteObjects did not remove, of those that were there.
Result<std::vector<std::string>> parse_s3_removal(BytesView xml);

// The id of the upload that CreateMultipartUpload has begun; never empty.
Result<std::string> parse_s3_upload_id(BytesView xml);
// Whether CompleteMultipartUpload says that the object is there; else `corrupt`.
Status check_s3_completion(BytesView xml);

// Of encoding-type=url: %XX and '+' for a blank. `corrupt` for a '%' with something else after it.
Result<std::string> decode_s3_name(std::string_view text);

}  // namespace tern
