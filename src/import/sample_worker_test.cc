#include "import/sample_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/crc32c.h"
#include "image/png.h"
#include "image/test_jpegs.h"
#include "import/test_samples.h"

namespace tern {
namespace {

using testing::HasSubstr;

const Bytes& photo() {
  static const Bytes bytes = make_jpeg({.width = 64, .height = 48});
  return bytes;
}

WorkedSample pack(const Bytes& bytes) {
  SampleWorker worker("/nowhere", Representation{});
  Result<WorkedSample> worked =
      worker.work({.name = "a/1", .class_name = "a", .split = Split::test, .bytes = bytes});
  EXPECT_TRUE(worked) << worked.error().message;
  return worked ? *worked : WorkedSample{};
}

TEST(SampleWorker, SaysWhatASampleIs) {
  const WorkedSample worked = pack(photo());
  EXPECT_EQ(worked.payload, photo());
  EXPECT_EQ(worked.record.name, "a/1");
  EXPECT_EQ(worked.record.class_name, "a");
  EXPECT_EQ(worked.record.split, Split::test);
  EXPECT_EQ(worked.record.info.size, (ImageSize{64, 48}));
  EXPECT_EQ(worked.record.bad_cause, "");
}

TEST(SampleWorker, AnImageThatWasCutOffIsBadWhereverItWasCut) {
  const Bytes png = *write_png(decode_plainly(photo()));
  for (const Bytes& whole : {photo(), png}) {
    for (const size_t missing : {size_t{20}, whole.size() / 2, whole.size() - 30}) {
      const WorkedSample worked = pack(whole.substr(0, whole.size() - missing));
      EXPECT_NE(worked.record.bad_cause, "") << missing << " of " << whole.size();
      EXPECT_EQ(worked.payload, "");
      EXPECT_EQ(worked.record.info, ImageInfo{});
    }
  }
}

TEST(SampleWorker, BytesAfterTheEndDoNoHarm) {
  const Bytes png = *write_png(decode_plainly(photo()));
  for (const Bytes& whole : {photo(), png}) {
    for (const Bytes& after : {Bytes(700, '\0'), Bytes("some camera's own data"), whole}) {
      EXPECT_EQ(pack(whole + after).record.bad_cause, "");
    }
  }
}

TEST(SampleWorker, WhatIsNoImageIsBad) {
  EXPECT_NE(pack("<html>404</html>").record.bad_cause, "");
  EXPECT_EQ(pack("").record.bad_cause, "it is empty");
}

TEST(SampleWorker, ANameThatNoFormatHoldsEndsTheImport) {
  SampleWorker worker("/nowhere", Representation{});
  const Result<WorkedSample> worked = worker.work({.name = Bytes(70'000, 'n'), .bytes = photo()});
  ASSERT_FALSE(worked);
  EXPECT_EQ(worked.error().code, Code::invalid);
}

TEST(SampleWorker, InPlaceSamplesAreReadAndNotKept) {
  TestPlace place;
  place.write("a/b.tar", "head" + photo() + "tail");
  SampleWorker worker(place.path(), std::nullopt);
  const auto length = static_cast<int64_t>(photo().size());
  const Result<WorkedSample> worked =
      worker.work({.name = "x", .range = FileRange{"a/b.tar", 4, length}});
  ASSERT_TRUE(worked) << worked.error().message;
  EXPECT_EQ(worked->payload, "");
  EXPECT_EQ(worked->file, "a/b.tar");
  EXPECT_EQ(worked->file_bytes, length + 8);
  EXPECT_EQ(worked->record.offset, 4U);
  EXPECT_EQ(worked->record.length, photo().size());
  EXPECT_EQ(worked->record.crc32c, crc32c(photo()));
}

TEST(SampleWorker, AFileThatEndsTooEarlyIsAnErrorBeforeMemoryIsTaken) {
  TestPlace place;
  place.write("short", "12345");
  SampleWorker worker(place.path(), std::nullopt);
  for (const FileRange& range :
       {FileRange{"short", 0, 6}, FileRange{"short", 6, 0}, FileRange{"short", -1, 2},
        FileRange{"short", 0, INT64_MAX}, FileRange{"short", INT64_MAX, INT64_MAX}}) {
    const Result<WorkedSample> worked = worker.work({.name = "x", .range = range});
    ASSERT_FALSE(worked);
    EXPECT_EQ(worked.error().code, Code::corrupt);
    EXPECT_THAT(worked.error().message, HasSubstr("ends before the sample"));
  }
}

TEST(SampleWorker, APipeInPlaceOfAFileIsRefusedAndNotWaitedFor) {
  TestPlace place;
  ASSERT_EQ(::mkfifo((place / "pipe").c_str(), 0600), 0);
  SampleWorker worker(place.path(), std::nullopt);
  EXPECT_FALSE(worker.work({.name = "x", .range = FileRange{"pipe", 0, 1}}));
  EXPECT_FALSE(worker.work({.name = "x", .range = FileRange{"", 0, 1}}));
}

}  // namespace
}  // namespace tern
