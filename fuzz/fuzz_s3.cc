// What S3 may say: lists, errors, what became of uploads and removals.
#include "cloud/s3_error.h"
#include "cloud/s3_list.h"
#include "cloud/s3_write.h"
#include "cloud/whole_list.h"
#include "fuzz/fuzz.h"

namespace tern {
namespace {

void try_lists(BytesView bytes) {
  if (const auto page = parse_s3_list(bytes)) {
    for (const ObjectInfo& object : page->objects) TERN_CHECK(object.size_bytes >= 0);
    const auto ours = keep_our_names(page->objects);
    for (const ObjectInfo& object : *ours) TERN_CHECK(check_object_name(object.name).has_value());
  } else {
    check_told(page.error());
  }
  if (const auto page = parse_s3_uploads(bytes)) {
    for (const OpenUpload& upload : page->uploads) TERN_CHECK(!upload.id.empty());
    TERN_CHECK(!page->next_name.empty() || page->next_id.empty());
  } else {
    check_told(page.error());
  }
  if (const auto removal = parse_s3_removal(bytes); !removal) check_told(removal.error());
}

void try_s3(BytesView bytes) {
  const uint8_t choice = take_choice(bytes);
  constexpr int kStatuses[] = {200, 204, 301, 307, 400, 403, 404, 409, 412, 416, 429, 501, 503};
  HttpAnswer answer{.status = kStatuses[choice % std::size(kStatuses)], .body = Bytes(bytes)};
  // What a header may say, a body says too.
  if (choice >= 128) {
    answer.headers = {{"Date", answer.body}, {"x-amz-bucket-region", answer.body}};
  }
  try_lists(bytes);
  if (const auto id = parse_s3_upload_id(bytes)) {
    TERN_CHECK(!id->empty());
  } else {
    check_told(id.error());
  }
  if (const Status done = check_s3_completion(bytes); !done) check_told(done.error());
  const S3Problem problem = read_s3_problem(answer);
  judge_s3_problem(problem, answer.status);
  const S3Place place{.bucket = "bucket", .endpoint = "https://x"};
  for (const char* name : {"", "object"}) {
    check_told(s3_error(answer, {kS3Read, name, "none", 1'700'000'000'000}, place));
  }
  check_told(not_an_s3(answer, place));
  // A success whose body says no is none.
  const bool says_no = answer.status == 200 && !problem.code.empty();
  judge_s3_completion(answer);
  TERN_CHECK(!says_no || answer.status != 200);
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_s3)
