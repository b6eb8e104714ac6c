#include "storage/retry_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

using testing::HasSubstr;

class RetryStoreTest : public testing::Test {
 protected:
  RetryStoreTest() { TERN_CHECK(memory_.put("there", "bytes")); }

  RetryStore retrying(RetryOptions options, uint64_t seed = 7) {
    return RetryStore(faulty_, options, clock_, seed);
  }
  void fail_requests(int64_t first, int64_t last, Fault fault) {
    for (int64_t n = first; n <= last; ++n) faulty_.inject(n, fault);
  }

  SimClock clock_;
  MemoryStore memory_;
  FaultyStore faulty_{memory_};
};

TEST_F(RetryStoreTest, EveryVerbIsTriedAgainUntilItWorks) {
  RetryStore store = retrying({});
  // Two failures before each success: requests 1 2 (3) 4 5 (6) ...
  for (int64_t n = 1; n < 30; ++n) {
    if (n % 3 != 0) faulty_.inject(n, n % 3 == 1 ? Fault::fail_before : Fault::fail_after);
  }
  EXPECT_EQ(store.get("there").value(), "bytes");
  EXPECT_EQ(store.get_range("there", 1, 2).value(), "yt");
  EXPECT_TRUE(store.put("x", "1"));
  EXPECT_EQ(store.stat("x").value().size_bytes, 1);
  EXPECT_EQ(store.list("").value().size(), 2U);
  EXPECT_TRUE(store.remove("x"));
  EXPECT_EQ(faulty_.requests(), 18);
  EXPECT_FALSE(memory_.get("x"));
}

TEST_F(RetryStoreTest, OfManyThoseThatFailedAreAskedForAgain) {
  RetryStore store = retrying({});
  faulty_.inject(2, Fault::fail_before);
  const std::vector<ObjectRange> ranges = {{"there", 0, 2}, {"there", 2, 2}, {"absent", 0, 1}};
  const auto got = store.get_ranges(ranges);
  EXPECT_EQ(got[0].value(), "by");
  EXPECT_EQ(got[1].value(), "te");
  EXPECT_EQ(got[2].error().code, Code::not_found);
  EXPECT_EQ(faulty_.requests(), 4);
  ASSERT_TRUE(memory_.put("other", "x"));
  faulty_.inject(6, Fault::fail_before);
  const std::vector<std::string> names = {"there", "other"};
  EXPECT_TRUE(store.remove_all(names));
  EXPECT_TRUE(memory_.list("")->empty());
}

TEST_F(RetryStoreTest, GivesUpAfterTheLastAttemptAndSaysSo) {
  fail_requests(1, 100, Fault::fail_before);
  const Result<Bytes> got = retrying({.attempts_max = 4}).get("there");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::unavailable);
  EXPECT_THAT(got.error().message, HasSubstr("gave up after 4 attempts"));
  EXPECT_EQ(faulty_.requests(), 4);
}

TEST_F(RetryStoreTest, NoAttemptBeginsAfterTheTotalTime) {
  fail_requests(1, 1000, Fault::fail_before);
  RetryStore store = retrying({.attempts_max = 1'000'000, .total_max = Milliseconds(60'000)});
  EXPECT_EQ(store.put("x", "y").error().code, Code::unavailable);
  EXPECT_LE(clock_.now(), Milliseconds(60'000));
  EXPECT_GE(clock_.now(), Milliseconds(45'000));  // it did use its time
  EXPECT_LT(faulty_.requests(), 30);
}

TEST_F(RetryStoreTest, TheTimeOfSlowRequestsCounts) {
  for (int64_t n = 1; n < 100; ++n) {
    faulty_.inject(n, Fault::fail_before, [&] { clock_.advance(Milliseconds(25'000)); });
  }
  RetryStore store = retrying({.attempts_max = 100, .total_max = Milliseconds(60'000)});
  EXPECT_FALSE(store.get("there"));
  EXPECT_EQ(faulty_.requests(), 3);
}

TEST_F(RetryStoreTest, WaitsDoubleUpToTheLimitWithJitter) {
  std::vector<Nanoseconds> arrivals;
  for (int64_t n = 1; n <= 7; ++n) {
    faulty_.inject(n, Fault::fail_before, [&] { arrivals.push_back(clock_.now()); });
  }
  RetryStore store = retrying(
      {.attempts_max = 8, .first_delay = Milliseconds(100), .delay_max = Milliseconds(1000)});
  ASSERT_TRUE(store.get("there"));
  arrivals.push_back(clock_.now());
  const std::vector<int> full_ms = {100, 200, 400, 800, 1000, 1000, 1000};
  for (size_t i = 0; i < full_ms.size(); ++i) {
    const Nanoseconds waited = arrivals[i + 1] - arrivals[i];
    EXPECT_GE(waited, Milliseconds(full_ms[i] / 2)) << i;
    EXPECT_LE(waited, Milliseconds(full_ms[i])) << i;
  }
  EXPECT_NE(arrivals[6] - arrivals[5], arrivals[7] - arrivals[6]) << "no jitter";
}

TEST_F(RetryStoreTest, TheSeedDecidesTheWaits) {
  const auto time_with_seed = [](uint64_t seed) {
    SimClock clock;
    MemoryStore memory;
    FaultyStore faulty(memory);
    for (int64_t n = 1; n <= 5; ++n) faulty.inject(n, Fault::fail_before);
    EXPECT_TRUE(RetryStore(faulty, {}, clock, seed).put("x", "y"));
    return clock.now();
  };
  EXPECT_EQ(time_with_seed(1), time_with_seed(1));
  EXPECT_NE(time_with_seed(1), time_with_seed(2));
  EXPECT_NE(time_with_seed(1), time_with_seed(1ULL << 32));
}

TEST_F(RetryStoreTest, WhatCannotGetBetterIsNotRetried) {
  RetryStore store = retrying({});
  EXPECT_EQ(store.get("absent").error().code, Code::not_found);
  EXPECT_EQ(store.get("../x").error().code, Code::invalid);
  EXPECT_EQ(store.create("there", "bytes").error().code, Code::already_exists);
  EXPECT_EQ(faulty_.requests(), 3);
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
}

TEST_F(RetryStoreTest, StopEndsTheWaiting) {
  fail_requests(1, 100, Fault::fail_before);
  std::stop_source stop;
  stop.request_stop();
  RetryStore store(faulty_, {}, clock_, 1, stop.get_token());
  EXPECT_EQ(store.get("there").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.requests(), 1);
}

TEST_F(RetryStoreTest, ACreateWhoseReplyWasLostHasSucceeded) {
  faulty_.inject(1, Fault::fail_after);
  faulty_.inject(3, Fault::fail_before);  // reading back may fail for a moment too
  EXPECT_TRUE(retrying({}).create("c", "ours"));
  EXPECT_EQ(memory_.get("c").value(), "ours");
  EXPECT_THAT(faulty_.history(), testing::ElementsAre("create c", "create c", "get c", "get c"));
}

TEST_F(RetryStoreTest, ACreateThatAnotherWonMeanwhileHasFailed) {
  faulty_.inject(1, Fault::fail_before, [&] { TERN_CHECK(memory_.create("c", "theirs")); });
  EXPECT_EQ(retrying({}).create("c", "ours").error().code, Code::already_exists);
  EXPECT_EQ(memory_.get("c").value(), "theirs");
}

TEST_F(RetryStoreTest, ATornCreateIsNotTakenForOurs) {
  faulty_.inject(1, Fault::tear);
  EXPECT_EQ(retrying({}).create("c", "ours").error().code, Code::already_exists);
}

TEST_F(RetryStoreTest, ACreateThatWasRemovedMeanwhileIsAborted) {
  faulty_.inject(1, Fault::fail_after);
  faulty_.inject(3, Fault::delay, [&] { TERN_CHECK(memory_.remove("c")); });
  EXPECT_EQ(retrying({}).create("c", "ours").error().code, Code::aborted);
}

TEST_F(RetryStoreTest, ACreateThatCannotBeReadBackIsNotASuccess) {
  faulty_.inject(1, Fault::fail_after);
  fail_requests(3, 100, Fault::fail_before);
  EXPECT_EQ(retrying({}).create("c", "ours").error().code, Code::unavailable);
}

// A store whose first `get` takes too long.
class SlowOnceStore final : public ObjectStore {
 public:
  Result<Bytes> get(const std::string& name) override {
    if (requests++ == 0) return fail(Code::deadline_exceeded, "too slow; try again");
    return memory_.get(name);
  }
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    return memory_.get_range(name, offset, length);
  }
  Status put(const std::string& name, BytesView bytes) override { return memory_.put(name, bytes); }
  Status create(const std::string& name, BytesView b) override { return memory_.create(name, b); }
  Result<ObjectInfo> stat(const std::string& name) override { return memory_.stat(name); }
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return memory_.list(prefix);
  }
  Status remove(const std::string& name) override { return memory_.remove(name); }
  std::optional<std::filesystem::path> local_path(const std::string&) const override { return {}; }

  int requests = 0;

 private:
  MemoryStore memory_;
};

TEST_F(RetryStoreTest, ARequestThatTookTooLongIsTriedAgain) {
  SlowOnceStore slow;
  ASSERT_TRUE(slow.put("x", "y"));
  EXPECT_EQ(RetryStore(slow, {}, clock_, 1).get("x").value(), "y");
  EXPECT_EQ(slow.requests, 2);
}

}  // namespace
}  // namespace tern
