// A store that fails at every request in turn must never cost a run its newest checkpoint.
#include <gtest/gtest.h>

#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "storage/sequence.h"

namespace tern {
namespace {

std::string fault_name(Fault fault) {
  switch (fault) {
    case Fault::fail_before: return "fail_before";
    case Fault::fail_after: return "fail_after";
    case Fault::tear: return "tear";
    case Fault::delay: return "delay";
    case Fault::duplicate: return "duplicate";
    case Fault::lose: return "lose";
  }
  return "unknown";
}

class SequenceOnFaultyStore : public testing::Test {
 protected:
  Result<std::unique_ptr<Sequence>> take(ObjectStore& store, const std::string& host,
                                         CheckpointOptions checkpoint = {.keep = 2}) {
    Sequence::Setup setup{.store = &store, .clock = &clock_};
    setup.me.token = "token of " + host;
    setup.me.host = host;
    setup.lease.term = Milliseconds(0);
    setup.checkpoint = checkpoint;
    return Sequence::take(std::move(setup), {});
  }
  static Result<int64_t> publish(Sequence& sequence, int step) {
    const std::string text = std::to_string(step);
    return sequence.publish("{\"step\":" + text + "}", {text + " weights", text + " optimizer"},
                            step % 3 == 0);
  }
  // The step of the newest checkpoint that verifies; 0 if there is none.
  static int newest_step(ObjectStore& store) {
    const Result<NewestCheckpoint> newest = newest_checkpoint(store);
    EXPECT_TRUE(newest && newest->found);
    if (!newest || !newest->found) return 0;
    const std::string& state = newest->found->record.state;
    const int step = std::stoi(state.substr(state.find(':') + 1));
    EXPECT_EQ(newest->found->blobs[0], std::to_string(step) + " weights");
    return step;
  }
  // As a lister would count them: blobs of readable checkpoints, and blobs that are there. With a
  // damaged record there may be more, since it may name them.
  static void expect_no_blob_is_wasted(ObjectStore& store) {
    bool is_damaged = false;
    size_t named = 0;
    for (int64_t number : record_numbers(*store.list(""))) {
      const Result<SequenceRecord> record = read_record(store, number);
      is_damaged = is_damaged || !record;
      if (!record) continue;
      for (const Blob& blob : record->blobs) {
        EXPECT_TRUE(store.stat(blob.object).has_value()) << "record " << number;
        ++named;
      }
    }
    const size_t there = store.list("blobs/")->size();
    EXPECT_TRUE(there == named || (is_damaged && there > named)) << there << " of " << named;
  }

  SimClock clock_;
};

class SequenceFaults : public SequenceOnFaultyStore, public testing::WithParamInterface<Fault> {};

TEST_P(SequenceFaults, EveryRequestOfASaveMayFailAndTheHolderGoesOn) {
  for (int64_t request = 1;; ++request) {
    SCOPED_TRACE(fault_name(GetParam()) + " of request " + std::to_string(request));
    MemoryStore store;
    FaultyStore faulty(store);
    const auto sequence = take(faulty, "a");
    ASSERT_TRUE(sequence.has_value());
    for (int step = 1; step <= 5; ++step) ASSERT_TRUE(publish(**sequence, step));
    const int64_t before = faulty.requests();
    faulty.inject(before + request, GetParam());
    const Result<int64_t> sixth = publish(**sequence, 6);
    const int newest = newest_step(store);
    const bool is_lie = GetParam() == Fault::lose;  // acknowledged, and not there
    EXPECT_TRUE(newest == 6 || (newest == 5 && (!sixth || is_lie))) << newest;
    const Status pruned = (*sequence)->prune();
    EXPECT_GE(newest_step(store), newest);
    if (faulty.requests() < before + request) {
      ASSERT_GT(request, 5);
      break;
    }
    ASSERT_TRUE(publish(**sequence, 7).has_value());
    EXPECT_EQ(newest_step(store), 7);
    ASSERT_TRUE((*sequence)->prune());
    EXPECT_EQ(newest_step(store), 7);
    // A lie may leave a blob too many, or an old record that names one too many.
    if (!is_lie) expect_no_blob_is_wasted(store);
  }
}

TEST_P(SequenceFaults, EveryRequestOfASaveMayBeTheLastOfAProcess) {
  for (int64_t request = 1;; ++request) {
    SCOPED_TRACE(fault_name(GetParam()) + " of request " + std::to_string(request));
    MemoryStore store;
    FaultyStore faulty(store);
    const auto dying = take(faulty, "a");
    ASSERT_TRUE(dying.has_value());
    for (int step = 1; step <= 5; ++step) ASSERT_TRUE(publish(**dying, step));
    const int64_t before = faulty.requests();
    faulty.inject(before + request, GetParam());
    if (publish(**dying, 6)) (*dying)->prune().permit_unchecked_error();
    if (faulty.requests() < before + request) break;

    const int newest = newest_step(store);
    EXPECT_TRUE(newest == 5 || newest == 6) << newest;
    const auto next = take(store, "b");
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(newest_step(store), newest);
    for (int step = newest + 1; step <= 9; ++step) {
      ASSERT_TRUE(publish(**next, step));
      // A checkpoint whose blob was lost is told of once, by a failure.
      const bool is_pruned = (*next)->prune().has_value();
      ASSERT_TRUE(is_pruned || (GetParam() == Fault::lose && (*next)->prune()));
      EXPECT_EQ(newest_step(store), step);
    }
    const auto third = take(store, "c");
    ASSERT_TRUE(third.has_value());
    if (GetParam() != Fault::lose) expect_no_blob_is_wasted(store);
    EXPECT_EQ(publish(**dying, 10).error().code, Code::aborted);
    EXPECT_EQ(newest_step(store), 9);
  }
}

TEST_P(SequenceFaults, EveryRequestOfTakingMayFailAndAnotherTryWorks) {
  for (int64_t request = 1;; ++request) {
    SCOPED_TRACE(fault_name(GetParam()) + " of request " + std::to_string(request));
    MemoryStore store;
    FaultyStore faulty(store);
    const auto first = take(store, "a");
    ASSERT_TRUE(first.has_value());
    ASSERT_TRUE(publish(**first, 1));
    ASSERT_TRUE(store.put(blob_object(1, std::string(64, 'a')), "never published"));
    faulty.inject(request, GetParam());
    auto next = take(faulty, "b");
    if (faulty.requests() < request) {
      ASSERT_GT(request, 5);
      break;
    }
    if (!next) next = take(faulty, "b");
    ASSERT_TRUE(next.has_value()) << next.error().to_string();
    EXPECT_EQ(newest_step(store), 1);
    ASSERT_TRUE((*next)->confirm());
    // If the lease itself was acknowledged and lost, the first holder finds out one record later.
    const Result<int64_t> late = publish(**first, 2);
    ASSERT_TRUE(!late || GetParam() == Fault::lose);
    EXPECT_EQ(late ? publish(**first, 3).error().code : late.error().code, Code::aborted);
    for (int step = 2; step <= 4; ++step) ASSERT_TRUE(publish(**next, step));
    ASSERT_TRUE((*next)->prune());
    EXPECT_EQ(newest_step(store), 4);
    EXPECT_EQ(read_record(store, 2)->kind, RecordKind::pruned) << "the first holder's is known";
  }
}

INSTANTIATE_TEST_SUITE_P(All, SequenceFaults,
                         testing::Values(Fault::fail_before, Fault::fail_after, Fault::tear,
                                         Fault::duplicate, Fault::delay, Fault::lose),
                         [](const auto& suite) { return fault_name(suite.param); });

TEST_F(SequenceOnFaultyStore, SaveThatWasAcknowledgedAndLostDoesNotCostTheOneBeforeIt) {
  for (int64_t request = 1; request <= 3; ++request) {  // two blobs, the record
    SCOPED_TRACE(request);
    MemoryStore store;
    FaultyStore faulty(store);
    const auto sequence = take(faulty, "a", {.keep = 1});
    ASSERT_TRUE(sequence.has_value());
    for (int step = 1; step <= 2; ++step) {
      ASSERT_TRUE(publish(**sequence, step));
      ASSERT_TRUE((*sequence)->prune());
    }
    faulty.inject(faulty.requests() + request, Fault::lose);
    ASSERT_TRUE(publish(**sequence, 4).has_value()) << "the store says that it is there";
    const Status pruned = (*sequence)->prune();
    ASSERT_FALSE(pruned.has_value());
    EXPECT_EQ(pruned.error().code, Code::corrupt);
    EXPECT_EQ(newest_step(store), 2);
    ASSERT_TRUE((*sequence)->prune());
    EXPECT_EQ(newest_step(store), 2);
    ASSERT_TRUE(publish(**sequence, 5));
    ASSERT_TRUE((*sequence)->prune());
    EXPECT_EQ(newest_step(store), 5);
  }
}

// A disk so slow that the holder is given up while it waits for one of its requests.
TEST_F(SequenceOnFaultyStore, HolderReplacedWhileAnyRequestOfItsSaveWasSlowPublishesNothingMore) {
  for (int64_t request = 1;; ++request) {
    SCOPED_TRACE(request);
    MemoryStore store;
    FaultyStore slow(store);
    const auto old = take(slow, "a");
    ASSERT_TRUE(old.has_value());
    for (int step = 1; step <= 4; ++step) ASSERT_TRUE(publish(**old, step));
    std::unique_ptr<Sequence> next;
    const int64_t before = slow.requests();
    slow.inject(before + request, Fault::delay, [&] {
      next = std::move(*take(store, "b"));
      ASSERT_TRUE(publish(*next, 100));
    });
    const Result<int64_t> fifth = publish(**old, 5);
    if (fifth) (*old)->prune().permit_unchecked_error();
    if (slow.requests() < before + request) break;
    // Up to the third, which is the record, it was replaced first.
    ASSERT_EQ(fifth.has_value(), request > 3);
    EXPECT_TRUE(fifth || fifth.error().code == Code::aborted);
    EXPECT_EQ(newest_step(store), 100);
    EXPECT_EQ(publish(**old, 6).error().code, Code::aborted);
    EXPECT_EQ((*old)->confirm().error().code, Code::aborted);
    EXPECT_EQ(newest_step(store), 100);
    ASSERT_TRUE(publish(*next, 101));
    ASSERT_TRUE(next->prune());
    EXPECT_EQ(newest_step(store), 101);
  }
}

// The calendar of a machine that waits for another's lease jumps with every look.
class JumpingClock final : public Clock {
 public:
  explicit JumpingClock(SimClock& inner) : inner_(inner) {}
  Nanoseconds now() override { return inner_.now(); }
  int64_t unix_ms() override { return inner_.unix_ms(); }
  bool wait_for(Nanoseconds duration, std::stop_token stop) override {
    ++jumps_;
    const int64_t days = 30 * jumps_;
    inner_.jump_calendar(std::chrono::hours(24 * (jumps_ % 2 == 0 ? -days : days)));
    return inner_.wait_for(duration, std::move(stop));
  }

 private:
  SimClock& inner_;
  int64_t jumps_ = 0;
};

TEST_F(SequenceOnFaultyStore, CalendarThatJumpsGivesNobodyTheRunEarlyOrLate) {
  MemoryStore store;
  const auto holder = take(store, "a");
  ASSERT_TRUE(holder.has_value());
  ASSERT_TRUE(publish(**holder, 1));
  JumpingClock jumping(clock_);
  Sequence::Setup setup{.store = &store, .clock = &jumping};
  setup.me.token = "token of b";
  setup.me.host = "b";
  setup.lease.term = std::chrono::minutes(1);
  const Nanoseconds began = clock_.now();
  bool holder_writes = true;
  setup.on_wait = [&](const Holder&, Milliseconds) {
    ASSERT_TRUE(!holder_writes || (*holder)->confirm());
  };
  const auto refused = Sequence::take(setup, {});
  ASSERT_FALSE(refused.has_value()) << "it took the run from a holder that writes";
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  EXPECT_LT(clock_.now() - began, std::chrono::minutes(1));
  holder_writes = false;
  const Nanoseconds again = clock_.now();
  ASSERT_TRUE(Sequence::take(setup, {}).has_value());
  EXPECT_EQ(clock_.now() - again, std::chrono::minutes(1));
}

TEST_F(SequenceOnFaultyStore, SaveRepeatedAfterALostReplyIsFoundDone) {
  MemoryStore store;
  FaultyStore faulty(store);
  const auto sequence = take(faulty, "a");
  ASSERT_TRUE(sequence.has_value());
  faulty.inject(faulty.requests() + 3, Fault::fail_after);
  EXPECT_EQ(publish(**sequence, 1).error().code, Code::unavailable);
  // The clock stands still, so the second attempt makes the same bytes.
  EXPECT_EQ(*publish(**sequence, 1), 2);
  EXPECT_EQ(*publish(**sequence, 2), 3);
}

TEST_F(SequenceOnFaultyStore, EarlierAttemptThatArrivedAfterAllIsPassed) {
  MemoryStore store;
  FaultyStore faulty(store);
  const auto sequence = take(faulty, "a");
  ASSERT_TRUE(sequence.has_value());
  faulty.inject(faulty.requests() + 3, Fault::fail_after);
  EXPECT_EQ(publish(**sequence, 1).error().code, Code::unavailable);
  EXPECT_EQ(newest_step(store), 1);
  ASSERT_TRUE((*sequence)->prune());
  EXPECT_EQ(newest_step(store), 1) << "its blobs look like waste but may be published";
  EXPECT_EQ(*publish(**sequence, 2), 3);
  EXPECT_EQ(newest_step(store), 2);
}

TEST_F(SequenceOnFaultyStore, WhatIsPrunedIsNotPrunedAgain) {
  MemoryStore store;
  FaultyStore counted(store);
  const auto sequence = take(counted, "a");
  ASSERT_TRUE(sequence.has_value());
  for (int step = 1; step <= 5; ++step) ASSERT_TRUE(publish(**sequence, step));
  ASSERT_TRUE((*sequence)->prune());
  const int64_t requests = counted.requests();
  ASSERT_TRUE((*sequence)->prune());
  EXPECT_EQ(counted.requests(), requests);
}

TEST_F(SequenceOnFaultyStore, OldHolderThatScansLateTouchesNothingOfItsSuccessor) {
  MemoryStore store;
  FaultyStore faulty(store);
  faulty.inject(3, Fault::fail_before);  // the scan after the lease was created
  const auto old = take(faulty, "a");
  ASSERT_TRUE(old.has_value());
  ASSERT_TRUE(publish(**old, 1));
  ASSERT_TRUE(publish(**old, 2));
  const auto next = take(store, "b");
  ASSERT_TRUE(next.has_value());
  ASSERT_TRUE(publish(**next, 4));
  ASSERT_TRUE(publish(**next, 5));
  ASSERT_TRUE((*old)->prune());
  EXPECT_EQ(read_record(store, 1)->kind, RecordKind::pruned);
  for (int64_t number : {2, 3, 5, 6}) {
    EXPECT_EQ(read_record(store, number)->kind, RecordKind::checkpoint) << number;
  }
  EXPECT_EQ(read_record(store, 4)->kind, RecordKind::lease);
  expect_no_blob_is_wasted(store);
}

TEST_F(SequenceOnFaultyStore, BlobThatATornPutLeftIsWrittenAgain) {
  MemoryStore store;
  FaultyStore faulty(store);
  const auto sequence = take(faulty, "a");
  ASSERT_TRUE(sequence.has_value());
  faulty.inject(faulty.requests() + 1, Fault::tear);
  EXPECT_FALSE(publish(**sequence, 1).has_value());
  ASSERT_TRUE(publish(**sequence, 1).has_value());
  EXPECT_EQ(newest_step(store), 1);
}

}  // namespace
}  // namespace tern
