#include "storage/sequence.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "storage/faulty_store.h"
#include "storage/sequence_fixture.h"

namespace tern {
namespace {

TEST_F(SequenceTest, EmptyRunIsTakenAtOnceAndPublishedTo) {
  const auto sequence = take(local_holder());
  EXPECT_EQ(highest(store_), 1);
  EXPECT_EQ(sequence->lease_number(), 1);
  EXPECT_EQ(newest(), "none");
  EXPECT_EQ(publish(*sequence, "one"), 2);
  EXPECT_EQ(publish(*sequence, "two"), 3);
  EXPECT_EQ(newest(), R"({"is":"two"})");
  const Result<NewestCheckpoint> found = newest_checkpoint(store_);
  EXPECT_EQ(found->found->blobs, std::vector<Bytes>{"two weights"});
  EXPECT_EQ(found->found->record.lease, 1);
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
}

TEST_F(SequenceTest, StateThatIsNoJsonObjectIsRefusedBeforeAnythingIsWritten) {
  const auto sequence = take(local_holder());
  for (const char* state : {"", "[]", "{", "{\"a\":\"\xff\"}", "{}{}"}) {
    EXPECT_EQ(sequence->publish(state, {"x"}, false).error().code, Code::invalid) << state;
  }
  EXPECT_EQ(store_.list("")->size(), 1u);
}

TEST_F(SequenceTest, OneOfEightTakersWins) {
  for (int round = 0; round < 20; ++round) {
    MemoryStore store;
    std::atomic<int> winners = 0;
    std::atomic<int> refused = 0;
    std::atomic<int> waiting = 8;
    std::vector<std::jthread> takers;
    for (int i = 0; i < 8; ++i) {
      takers.emplace_back([&] {
        Sequence::Setup setup{.store = &store, .clock = &clock_, .me = local_holder()};
        waiting -= 1;
        while (waiting > 0) std::this_thread::yield();
        const auto sequence = Sequence::take(std::move(setup), {});
        if (sequence) {
          winners += 1;
        } else {
          refused += sequence.error().code == Code::failed_precondition ? 1 : 0;
        }
      });
    }
    takers.clear();
    EXPECT_EQ(winners, 1) << "round " << round;
    EXPECT_EQ(refused, 7) << "round " << round;
  }
}

TEST_F(SequenceTest, OfManyWhoTakeFromEachOtherOnlyTheLastCanPublish) {
  for (int round = 0; round < 20; ++round) {
    MemoryStore store;
    std::vector<std::unique_ptr<Sequence>> sequences(8);
    std::vector<std::jthread> takers;
    for (size_t i = 0; i < 8; ++i) {
      takers.emplace_back([&, i] {
        Sequence::Setup setup{
            .store = &store, .clock = &clock_, .me = remote_holder(std::to_string(i))};
        setup.lease.term = Milliseconds(0);
        auto sequence = Sequence::take(std::move(setup), {});
        if (sequence) sequences[i] = std::move(*sequence);
      });
    }
    takers.clear();
    const std::vector<ObjectInfo> leases = store.list("").value_or({});
    int published = 0;
    for (const auto& sequence : sequences) {
      ASSERT_NE(sequence, nullptr);
      const Result<int64_t> number = sequence->publish("{}", {"weights"}, false);
      EXPECT_EQ(number.value_or(9), 9) << "behind all eight leases";
      EXPECT_TRUE(number || number.error().code == Code::aborted);
      published += number ? 1 : 0;
    }
    EXPECT_EQ(leases.size(), 8u);
    EXPECT_EQ(published, 1);
  }
}

// Runs in a child process: takes the run in its copy of the store and tells the parent the record.
void take_in_child(int out) {
  MemoryStore store;
  SimClock clock;
  Sequence::Setup setup{.store = &store, .clock = &clock, .me = local_holder()};
  const auto sequence = Sequence::take(std::move(setup), {});
  const Result<Bytes> record = store.get(record_object(1));
  if (sequence && record) (void)!write(out, record->data(), record->size());
  _exit(0);
}

TEST_F(SequenceTest, HolderThatDiedOnThisMachineIsReplacedAtOnce) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) take_in_child(pipe_ends[1]);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  Bytes record(4096, '\0');
  const ssize_t size = read(pipe_ends[0], record.data(), record.size());
  ASSERT_GT(size, 0);
  record.resize(static_cast<size_t>(size));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  ASSERT_TRUE(store_.create(record_object(1), record));

  // First while it is a zombie, then when nothing is left of it.
  take(local_holder());
  EXPECT_EQ(highest(store_), 2);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  MemoryStore other;
  ASSERT_TRUE(other.create(record_object(1), record));
  take(local_holder(), other);
  EXPECT_EQ(highest(other), 2);
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
  EXPECT_TRUE(waited_for_.empty());
}

TEST_F(SequenceTest, HolderThatLivesOnThisMachineIsRefusedAndNamed) {
  const auto holder = take(local_holder());
  const auto second = try_take(local_holder(), store_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::failed_precondition);
  EXPECT_NE(second.error().message.find(local_holder().to_string()), std::string::npos)
      << second.error().message;
  EXPECT_EQ(publish(*holder, "still mine"), 2);
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
}

TEST_F(SequenceTest, SilentHolderElsewhereIsReplacedAfterTheTerm) {
  const auto old = take(remote_holder("far"));
  publish(*old, "one");
  const auto next = take(local_holder());
  EXPECT_EQ(highest(store_), 3);
  EXPECT_EQ(next->lease_number(), 3);
  EXPECT_EQ(clock_.now(), Nanoseconds(kTerm));
  EXPECT_EQ(waited_for_, std::vector<std::string>{"far"});
}

TEST_F(SequenceTest, TermOfZeroTakesAtOnce) {
  const auto old = take(remote_holder("far"));
  term_ = Milliseconds(0);
  take(local_holder());
  EXPECT_EQ(highest(store_), 2);
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
}

TEST_F(SequenceTest, HolderElsewhereThatWritesMeanwhileKeepsTheRun) {
  const auto old = take(remote_holder("far"));
  while_waiting_ = [&] { publish(*old, "alive"); };
  const auto next = try_take(local_holder(), store_);
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code, Code::failed_precondition);
  EXPECT_NE(next.error().message.find("on machine far"), std::string::npos);
  EXPECT_LT(clock_.now(), Nanoseconds(kTerm));
  EXPECT_EQ(publish(*old, "still"), 3);
}

TEST_F(SequenceTest, HolderThatRenewsAndIsTornStillCountsAsAlive) {
  const auto old = take(remote_holder("far"));
  while_waiting_ = [&] { ASSERT_TRUE(store_.create(record_object(2), "{\"to")); };
  EXPECT_EQ(try_take(local_holder(), store_).error().code, Code::failed_precondition);
}

TEST_F(SequenceTest, HolderElsewhereThatReleasesMeanwhileIsReplacedThen) {
  const auto old = take(remote_holder("far"));
  while_waiting_ = [&] { ASSERT_TRUE(old->release()); };
  take(local_holder());
  EXPECT_EQ(highest(store_), 3);
  EXPECT_LT(clock_.now(), Nanoseconds(kTerm));
}

TEST_F(SequenceTest, ReleaseLetsAnotherMachineTakeAtOnce) {
  const auto old = take(remote_holder("far"));
  ASSERT_TRUE(old->release());
  take(local_holder());
  EXPECT_EQ(highest(store_), 3);
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
}

TEST_F(SequenceTest, WaitingCanBeStopped) {
  const auto old = take(remote_holder("far"));
  while_waiting_ = [&] { stop_.request_stop(); };
  EXPECT_EQ(try_take(local_holder(), store_).error().code, Code::cancelled);
  EXPECT_EQ(store_.list("")->size(), 1u);
}

TEST_F(SequenceTest, HolderElsewhereOfAGroupThatMayGoOnWithoutItIsReplacedAtOnce) {
  const auto old = take(of_group(remote_holder("far"), "g"));
  takes_from_own_group_ = true;
  take(of_group(local_holder(), "g"));
  EXPECT_EQ(highest(store_), 2);
  EXPECT_EQ(clock_.now(), Nanoseconds(0));
  EXPECT_TRUE(waited_for_.empty());
  EXPECT_EQ(old->publish("{}", {}, false).error().code, Code::aborted);
}

TEST_F(SequenceTest, HolderElsewhereOfAGroupThatMayNotIsWaitedForWhileItWrites) {
  const auto old = take(of_group(remote_holder("far"), "g"));
  while_waiting_ = [&] { publish(*old, "alive"); };
  const auto next = take(of_group(local_holder(), "g"));
  EXPECT_EQ(next->lease_number(), 3);
  EXPECT_GT(clock_.now(), Nanoseconds(kTerm));
}

TEST_F(SequenceTest, HolderHereOfOwnGroupIsWaitedForUntilItReleases) {
  const auto old = take(of_group(local_holder(), "g"));
  while_waiting_ = [&] { ASSERT_TRUE(old->release()); };
  const auto next = take(of_group(local_holder(), "g"));
  EXPECT_EQ(next->lease_number(), 3);
  EXPECT_LT(clock_.now(), Nanoseconds(kTerm));
}

TEST_F(SequenceTest, HolderHereOfOwnGroupThatHangsLosesTheRun) {
  const auto old = take(of_group(local_holder(), "g"));
  takes_from_own_group_ = true;
  const auto next = take(of_group(local_holder(), "g"));
  EXPECT_EQ(next->lease_number(), 2);
  EXPECT_GE(clock_.now(), std::chrono::seconds(10));
}

TEST_F(SequenceTest, OneMayNotTakeFromAnotherGroupNorFromNone) {
  takes_from_own_group_ = true;
  for (const char* group : {"", "other"}) {
    MemoryStore store;
    const auto old = take(of_group(local_holder(), group), store);
    EXPECT_EQ(try_take(of_group(local_holder(), "g"), store).error().code,
              Code::failed_precondition);
    EXPECT_EQ(try_take(local_holder(), store).error().code, Code::failed_precondition);
  }
}

TEST_F(SequenceTest, LeaseIsRenewedEveryThirdOfTheTerm) {
  const auto sequence = take(local_holder());
  clock_.advance(kTerm / 3 - Milliseconds(1));
  ASSERT_TRUE(sequence->renew_if_due());
  EXPECT_EQ(store_.list("")->size(), 1u);
  clock_.advance(Milliseconds(1));
  ASSERT_TRUE(sequence->renew_if_due());
  EXPECT_EQ(kind_of(2), RecordKind::lease);
  EXPECT_EQ(read_record(store_, 2)->lease, 1);
  ASSERT_TRUE(sequence->renew_if_due());
  clock_.advance(kTerm / 3 - Milliseconds(1));
  publish(*sequence, "a checkpoint renews as well");
  clock_.advance(kTerm / 3 - Milliseconds(1));
  ASSERT_TRUE(sequence->renew_if_due());
  EXPECT_EQ(highest(store_), 3);
}

TEST_F(SequenceTest, ALeaseThatCannotBeRenewedIsNotTriedBetweenAnyTwoSteps) {
  FaultyStore faulty(store_);
  const auto sequence = take(local_holder(), faulty);
  clock_.advance(kTerm / 3);
  const int64_t before = faulty.requests();
  for (int64_t i = 1; i <= 100; ++i) faulty.inject(before + i, Fault::fail_before);
  EXPECT_EQ(sequence->renew_if_due().error().code, Code::unavailable);
  for (int step = 0; step < 50; ++step) ASSERT_TRUE(sequence->renew_if_due());
  EXPECT_EQ(faulty.requests(), before + 1);
  clock_.advance(kTerm / 6);
  EXPECT_EQ(sequence->renew_if_due().error().code, Code::unavailable);
  EXPECT_EQ(faulty.requests(), before + 2);
  for (int64_t i = 3; i <= 100; ++i) faulty.inject(before + i, Fault::delay);
  clock_.advance(kTerm / 6);
  ASSERT_TRUE(sequence->renew_if_due());
  EXPECT_EQ(kind_of(2), RecordKind::lease);
}

TEST_F(SequenceTest, ConfirmWritesAtOnceWhateverTheTerm) {
  for (const Milliseconds term : {kTerm, Milliseconds(0)}) {
    MemoryStore store;
    term_ = term;
    const auto sequence = take(remote_holder("far"), store);
    ASSERT_TRUE(sequence->confirm());
    ASSERT_EQ(highest(store), 2);
    EXPECT_EQ(read_record(store, 2)->kind, RecordKind::lease);
    EXPECT_EQ(read_record(store, 2)->lease, 1);
    clock_.advance(kTerm / 3 - Milliseconds(1));
    ASSERT_TRUE(sequence->renew_if_due());
    EXPECT_EQ(highest(store), 2) << "it renews as well";
    const auto next = take(remote_holder("near"), store);
    EXPECT_EQ(sequence->confirm().error().code, Code::aborted);
    EXPECT_EQ(highest(store), 3);
  }
}

TEST_F(SequenceTest, OldHolderThatWakesUpIsToldWhoHasTheRun) {
  const auto old = take(remote_holder("far"));
  publish(*old, "one");
  const auto next = take(remote_holder("near"));
  publish(*next, "two");
  const size_t objects = store_.list("0")->size();
  const Result<int64_t> late = old->publish("{}", {"late weights"}, false);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::aborted);
  EXPECT_NE(late.error().message.find("on machine near"), std::string::npos);
  EXPECT_NE(late.error().message.find("record 3"), std::string::npos);
  clock_.advance(kTerm);
  EXPECT_EQ(old->renew_if_due().error().code, Code::aborted);
  EXPECT_EQ(old->release().error().code, Code::aborted);
  EXPECT_EQ(old->publish("{}", {}, false).error().code, Code::aborted);
  ASSERT_TRUE(old->prune());
  EXPECT_EQ(store_.list("0")->size(), objects);
  EXPECT_EQ(newest(), R"({"is":"two"})");
  publish(*next, "three");
  EXPECT_EQ(newest(), R"({"is":"three"})");
}

TEST_F(SequenceTest, OldHolderIsToldAlsoWhenItsSuccessorHasPrunedThatNumber) {
  keep_ = 1;
  const auto old = take(remote_holder("far"));
  const auto next = take(remote_holder("near"));
  publish(*next, "one");
  publish(*next, "two");
  ASSERT_TRUE(next->prune());
  EXPECT_EQ(kind_of(2), RecordKind::pruned);
  const Result<int64_t> late = old->publish("{}", {}, false);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::aborted);
  EXPECT_NE(late.error().message.find("has gone on since"), std::string::npos);
}

TEST_F(SequenceTest, HolderThatSleepsWhileItClearsLeavesItsSuccessorsBlobs) {
  FaultyStore sleepy(store_);
  std::string unpublished;
  // Requests: look, create the lease, look for what to clear.
  sleepy.inject(3, Fault::delay, [&] {
    const auto next = take(remote_holder("near"));
    unpublished = blob_object(highest(store_), std::string(64, 'a'));
    ASSERT_TRUE(store_.put(unpublished, "about to be published"));
  });
  const auto old = take(remote_holder("far"), sleepy);
  ASSERT_FALSE(unpublished.empty());
  EXPECT_TRUE(store_.stat(unpublished).has_value());
}

TEST_F(SequenceTest, OldHolderThatSleepsBetweenBlobAndCommitHarmsNothing) {
  FaultyStore sleepy(store_);
  const auto old = take(remote_holder("far"), sleepy);
  publish(*old, "one");
  std::unique_ptr<Sequence> next;
  // Request +1 is the blob's put, +2 the commit.
  sleepy.inject(sleepy.requests() + 2, Fault::delay, [&] {
    EXPECT_TRUE(has_blob(1, "late"));
    next = take(remote_holder("near"));
    EXPECT_FALSE(has_blob(1, "late")) << "blobs never published are cleared";
    EXPECT_TRUE(has_blob(1, "one"));
    publish(*next, "two");
  });
  EXPECT_EQ(old->publish("{}", {"late weights"}, false).error().code, Code::aborted);
  EXPECT_EQ(newest(), R"({"is":"two"})");
  publish(*next, "three");
}

TEST_F(SequenceTest, OldHolderThatSleepsAnywhereInPruneHarmsNothing) {
  for (int64_t request = 1; request <= 8; ++request) {
    MemoryStore store;
    FaultyStore sleepy(store);
    keep_ = 1;
    const auto old = take(remote_holder("far"), sleepy);
    for (const char* text : {"one", "two", "three"}) publish(*old, text, text[0] == 't');
    std::unique_ptr<Sequence> next;
    sleepy.inject(sleepy.requests() + request, Fault::delay, [&] {
      const Result<NewestCheckpoint> found = newest_checkpoint(store);
      ASSERT_TRUE(found && found->found) << request;
      EXPECT_EQ(found->found->record.state, R"({"is":"three"})");
      next = take(remote_holder("near"), store);
      publish(*next, "four");
      publish(*next, "five");
      ASSERT_TRUE(next->prune());
    });
    ASSERT_TRUE(old->prune());
    if (next == nullptr) {
      EXPECT_GT(request, 5) << "prune() makes more requests than this";
      break;
    }
    const Result<NewestCheckpoint> found = newest_checkpoint(store);
    ASSERT_TRUE(found && found->found);
    EXPECT_EQ(found->found->record.state, R"({"is":"five"})");
    const Result<SequenceRecord> best = read_record(store, 4);
    ASSERT_TRUE(best.has_value());
    EXPECT_EQ(best->kind, RecordKind::checkpoint) << "the best of the old holder is kept";
    EXPECT_TRUE(store.stat(best->blobs[0].object).has_value());
    publish(*next, "six");
  }
}

TEST_F(SequenceTest, AStoreFullOfDamageEndsWithAnError) {
  const auto sequence = take(local_holder());
  for (int64_t number = 2; number < 200; ++number) {
    ASSERT_TRUE(store_.create(record_object(number), "torn"));
  }
  EXPECT_EQ(sequence->publish("{}", {}, false).error().code, Code::unavailable);
  EXPECT_EQ(publish(*sequence, "goes on where it was"), 200);
}

}  // namespace
}  // namespace tern
