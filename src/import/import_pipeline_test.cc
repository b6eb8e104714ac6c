#include "import/import_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "import/test_samples.h"

namespace tern {
namespace {

using testing::ElementsAreArray;

std::vector<SourceSample> large_samples(int count, int side) {
  std::vector<SourceSample> samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back(raw_sample(i, "c", Split::train, {side, side}, 0));
  }
  return samples;
}

Result<bool> all(const SourceSample&) { return true; }

std::vector<std::string> names_of(const std::vector<SourceSample>& samples) {
  std::vector<std::string> names;
  for (const SourceSample& sample : samples) names.push_back(sample.name);
  return names;
}

TEST(ImportPipeline, KeepsTheOrderWhateverTheNumberOfThreads) {
  const std::vector<SourceSample> samples = some_samples(1000);
  for (const int64_t threads : {1, 2, 7}) {
    MemorySource source(samples);
    ImportPipeline pipeline({.source = &source, .pack = Representation{}, .threads = threads});
    std::vector<std::string> written;
    const auto write = [&](WorkedSample sample, int64_t) {
      written.push_back(sample.record.name);
      return Status();
    };
    ASSERT_TRUE(pipeline.run(all, write, {}));
    EXPECT_THAT(written, ElementsAreArray(names_of(samples)));
  }
}

TEST(ImportPipeline, TheScanIsNeverMoreThanTheBudgetAhead) {
  constexpr int kSide = 320;  // 100 kB
  MemorySource source(large_samples(400, kSide));
  std::atomic<int64_t> scanned = 0;
  source.before = [&](int64_t at) {
    scanned = at;
    return Status();
  };
  ImportPipeline pipeline(
      {.source = &source, .pack = Representation{}, .threads = 2, .bytes_max = 2 << 20});
  int64_t written = 0;
  int64_t ahead_max = 0;
  const auto write = [&](WorkedSample, int64_t) {
    ahead_max = std::max(ahead_max, scanned - written++);
    return Status();
  };
  ASSERT_TRUE(pipeline.run(all, write, {}));
  EXPECT_EQ(written, 400);
  // The budget, and the batch that waits for room in it, of 1 MiB each and some.
  EXPECT_LE(ahead_max, 3 * 11 + 2);
}

TEST(ImportPipeline, ASampleLargerThanTheBudgetPassesAlone) {
  MemorySource source(large_samples(5, 320));
  ImportPipeline pipeline(
      {.source = &source, .pack = Representation{}, .threads = 2, .bytes_max = 10});
  int written = 0;
  ASSERT_TRUE(pipeline.run(all, [&](WorkedSample, int64_t) { return ++written, Status(); }, {}));
  EXPECT_EQ(written, 5);
}

TEST(ImportPipeline, AnErrorOfTheWriterEndsItAndIsTheOneReturned) {
  MemorySource source(some_samples(5000));
  ImportPipeline pipeline({.source = &source, .pack = Representation{}, .threads = 2});
  int written = 0;
  const auto write = [&](WorkedSample, int64_t) {
    return ++written == 100 ? Status(fail(Code::exhausted, "disk full")) : Status();
  };
  const Status status = pipeline.run(all, write, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "disk full");
  EXPECT_EQ(written, 100);
}

TEST(ImportPipeline, WhatCameBeforeAnErrorOfTheScanIsWritten) {
  MemorySource source(some_samples(5000));
  source.before = [](int64_t at) {
    return at == 777 ? Status(fail(Code::corrupt, "torn archive")) : Status();
  };
  ImportPipeline pipeline({.source = &source, .pack = Representation{}, .threads = 2});
  int written = 0;
  const Status status =
      pipeline.run(all, [&](WorkedSample, int64_t) { return ++written, Status(); }, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "torn archive");
  EXPECT_EQ(written, 777);
}

TEST(ImportPipeline, StopsWhileTheWriterWaitsAndWhileTheScanDoes) {
  for (const bool in_scan : {true, false}) {
    std::stop_source asked;
    MemorySource source(some_samples(5000));
    source.before = [&](int64_t at) {
      if (in_scan && at == 3) asked.request_stop();
      return Status();
    };
    ImportPipeline pipeline({.source = &source, .pack = Representation{}, .threads = 2});
    const auto write = [&](WorkedSample, int64_t) {
      if (!in_scan) asked.request_stop();
      return Status();
    };
    const Status status = pipeline.run(all, write, asked.get_token());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::cancelled);
  }
}

TEST(ImportPipeline, AnExceptionBecomesAnError) {
  MemorySource source(some_samples(10));
  source.before = [](int64_t) -> Status { throw std::bad_alloc(); };
  ImportPipeline pipeline({.source = &source, .pack = Representation{}, .threads = 2});
  const Status status = pipeline.run(all, [](WorkedSample, int64_t) { return Status(); }, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::exhausted);
}

}  // namespace
}  // namespace tern
