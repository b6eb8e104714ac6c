// Samples that can be read again a moment later, and those that cannot.
#include "loader/fetch_retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <vector>

#include "loader/test_loader.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Loader::Setup setup_of(const Given& given, Clock& clock, int64_t threads) {
  Loader::Setup setup = given.setup(threads, /*epochs=*/1);
  setup.clock = &clock;
  setup.on_bad = OnBadSample::skip;
  return setup;
}

TEST(FetchRetry, AMomentOfSilenceChangesNothing) {
  const Given healthy(40, 20);
  const std::vector<Batch> expected = load_all(healthy.setup(0, 1));
  for (const Code code : {Code::unavailable, Code::deadline_exceeded}) {
    for (const int64_t threads : {0, 3}) {
      SimClock clock;
      Given given(40, 20);
      for (int64_t sample = 0; sample < 40; sample += 3) {
        given.dataset.fail_first(sample, kFetchAttemptsMax - 1, code);
      }
      expect_equal(load_all(setup_of(given, clock, threads)), expected);
      EXPECT_EQ(given.dataset.reads(), 40 + 14 * (kFetchAttemptsMax - 1));
    }
  }
}

TEST(FetchRetry, SilenceThatLastsEndsWithAnErrorThatNamesTheSample) {
  for (const int64_t threads : {0, 2}) {
    SimClock clock;
    Given given(20, 20, Order::sequential);
    given.dataset.fail_at(7, Code::unavailable);
    Loader loader(setup_of(given, clock, threads));
    const Result<Batch> batch = loader.next();
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code, Code::unavailable);
    EXPECT_THAT(batch.error().message, AllOf(HasSubstr("load sample 7 "), HasSubstr("sample-7.raw"),
                                             HasSubstr("gave up after 8 attempts, ")));
    EXPECT_GE(clock.now(), Milliseconds(6'350));
    EXPECT_LE(clock.now(), Milliseconds(12'700));
  }
}

TEST(FetchRetry, AStoreThatTriesForMinutesIsAskedTwiceAndTheTimeIsTheTruth) {
  SimClock clock;
  Given given(20, 20, Order::sequential);
  given.dataset.fail_at(7, Code::unavailable);
  given.dataset.on_read([&](int64_t) { clock.advance(std::chrono::seconds(120)); });
  Bytes buffer;
  const auto stored = fetch_with_retries(given.dataset, 7, buffer, &clock, {});
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, Code::unavailable);
  EXPECT_EQ(given.dataset.reads(), 2);
  EXPECT_THAT(stored.error().message, HasSubstr("gave up after 2 attempts, 120.1 s after"));
}

TEST(FetchRetry, WhatIsWrongForGoodIsReadOnce) {
  for (const Code code : {Code::corrupt, Code::not_found, Code::exhausted, Code::internal}) {
    SimClock clock;
    Given given(20, 20, Order::sequential);
    given.dataset.fail_at(0, code);
    Bytes buffer;
    EXPECT_FALSE(fetch_with_retries(given.dataset, 0, buffer, &clock, {}));
    EXPECT_EQ(given.dataset.reads(), 1);
    EXPECT_EQ(clock.now(), Nanoseconds(0));
  }
}

TEST(FetchRetry, WithoutAClockNothingIsTriedAgain) {
  Given given(20, 20, Order::sequential);
  given.dataset.fail_at(3, Code::unavailable);
  Bytes buffer;
  EXPECT_FALSE(fetch_with_retries(given.dataset, 3, buffer, nullptr, {}));
  EXPECT_EQ(given.dataset.reads(), 1);
}

// The step loop is told to leave while a server is away. SimClock would pass over the wait.
TEST(FetchRetry, StopInterruptsTheWaitAndNothingIsLost) {
  SystemClock clock;
  for (const int64_t threads : {0, 2}) {
    Given given(20, 10);
    const int64_t sample = given.plan.sample_at(0, 4);
    given.dataset.fail_first(sample, kFetchAttemptsMax - 1, Code::unavailable);
    std::stop_source stop;
    given.dataset.on_read([&](int64_t read) {
      if (read == sample) stop.request_stop();
    });
    Loader loader(setup_of(given, clock, threads));
    const Result<Batch> cancelled = loader.next(stop.get_token());
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code, Code::cancelled);
    EXPECT_EQ(loader.position(), (LoaderPosition{0, 0}));
    given.dataset.fail_first(sample, 0, Code::unavailable);
    const Result<Batch> batch = loader.next();
    ASSERT_TRUE(batch) << batch.error().message;
    EXPECT_EQ(batch->images, load_batch(given.setup(0), {0, 0}).value().images);
  }
}

TEST(FetchRetry, LoaderThatIsDestroyedDoesNotWaitForAServer) {
  SystemClock clock;
  Given given(20, 10);
  for (int64_t sample = 0; sample < 20; ++sample) {
    given.dataset.fail_first(sample, 1'000'000, Code::unavailable);
  }
  const Nanoseconds start = clock.now();
  {
    const Loader loader(setup_of(given, clock, 2));
    ASSERT_TRUE(given.dataset.wait_for_reads(1));
  }
  EXPECT_LT(clock.now() - start, std::chrono::seconds(5));  // all its waits would take 6 at least
}

}  // namespace
}  // namespace tern
