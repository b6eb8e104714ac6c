#include "storage/record_log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "storage/disk_store.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "storage/sim_file_door.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// --- One file on disk. --------------------------------------------------------------------------

class FileLogTest : public testing::Test {
 protected:
  FileLogTest() {
    std::string folder = testing::TempDir() + "record_log_XXXXXX";
    TERN_CHECK(::mkdtemp(folder.data()) != nullptr);
    root_ = folder;
    disk_ = DiskStore::open(root_, door_).value();
  }
  ~FileLogTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::unique_ptr<RecordLog> open() { return open_record_log(*disk_, "run/log.jsonl").value(); }
  std::vector<std::string> records() { return read_records(*disk_, "run/log.jsonl").value(); }
  std::string file_text() {
    std::ostringstream text;
    text << std::ifstream(root_ / "run/log.jsonl").rdbuf();
    return text.str();
  }
  void damage_end(const std::string& torn) {
    std::ofstream(root_ / "run/log.jsonl", std::ios::app) << torn;
  }

  RealFileDoor door_;
  std::filesystem::path root_;
  std::unique_ptr<DiskStore> disk_;
};

TEST_F(FileLogTest, RecordsAreLinesOfOneFile) {
  auto log = open();
  EXPECT_TRUE(log->append("{\"a\":1}"));
  EXPECT_TRUE(log->append(""));
  EXPECT_TRUE(log->append("{\"b\":2}"));
  EXPECT_TRUE(log->sync());
  EXPECT_EQ(file_text(), "{\"a\":1}\n\n{\"b\":2}\n");
  EXPECT_THAT(records(), ElementsAre("{\"a\":1}", "", "{\"b\":2}"));
}

TEST_F(FileLogTest, AnAbsentLogIsEmptyAndLookingDoesNotMakeIt) {
  EXPECT_THAT(records(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(root_ / "run"));
}

TEST_F(FileLogTest, OpeningAgainGoesOn) {
  EXPECT_TRUE(open()->append("1"));
  EXPECT_TRUE(open()->append("2"));
  EXPECT_THAT(records(), ElementsAre("1", "2"));
}

TEST_F(FileLogTest, ATornLastLineIsDroppedByReadersAndCutByTheNextWriter) {
  EXPECT_TRUE(open()->append("whole"));
  // Shorter, as long as and longer than a block of the search for the last newline.
  for (const size_t torn_bytes : {1U, 4095U, 4096U, 4097U, 20'000U}) {
    damage_end(std::string(torn_bytes, 't'));
    EXPECT_THAT(records(), ElementsAre("whole"));
    auto log = open();
    EXPECT_EQ(file_text(), "whole\n") << torn_bytes;
  }
  damage_end("{\"torn");
  EXPECT_TRUE(open()->append("next"));
  EXPECT_THAT(records(), ElementsAre("whole", "next"));
}

TEST_F(FileLogTest, AFileThatIsOneTornLineBecomesEmpty) {
  std::filesystem::create_directories(root_ / "run");
  damage_end(std::string(10'000, '\0'));
  EXPECT_THAT(records(), IsEmpty());
  EXPECT_TRUE(open()->append("first"));
  EXPECT_EQ(file_text(), "first\n");
}

TEST_F(FileLogTest, ARecordWithANewlineIsInvalid) {
  auto log = open();
  EXPECT_EQ(log->append("a\nb").error().code, Code::invalid);
  EXPECT_EQ(log->append("\n").error().code, Code::invalid);
  EXPECT_THAT(records(), IsEmpty());
}

TEST_F(FileLogTest, ABadNameIsInvalid) {
  EXPECT_EQ(open_record_log(*disk_, "../log").error().code, Code::invalid);
  EXPECT_EQ(read_records(*disk_, "../log").error().code, Code::invalid);
}

TEST_F(FileLogTest, ARecordThatDidNotFitIsNotLeftInHalf) {
  auto log = open();
  ASSERT_TRUE(log->append("first"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{50, before.rlim_max};
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status appended = log->append(std::string(100, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(appended.error().code, Code::exhausted);
  EXPECT_EQ(file_text(), "first\n");
  EXPECT_TRUE(log->append("second"));
  EXPECT_THAT(records(), ElementsAre("first", "second"));
}

TEST_F(FileLogTest, SegmentsFollowTheFile) {
  EXPECT_TRUE(open()->append("from the file"));
  ASSERT_TRUE(disk_->put("run/log.jsonl.d/00000002", "segment 2\n"));
  ASSERT_TRUE(disk_->put("run/log.jsonl.d/00000001", "segment 1\n"));
  EXPECT_THAT(records(), ElementsAre("from the file", "segment 1", "segment 2"));
}

// Lengths differ from record to record, up to more than a page.
std::string record_text(int round, int number) {
  return fmt::format("{} {} {}", round, number,
                     std::string(static_cast<size_t>(number * 977 % 6000), 'x'));
}

[[noreturn]] void append_until_killed(ObjectStore& store, int round, int acknowledged) {
  auto log = open_record_log(store, "run/log.jsonl");
  if (!log) ::_exit(1);
  for (int32_t i = 0;; ++i) {
    if (!(*log)->append(record_text(round, i))) ::_exit(2);
    if (::write(acknowledged, &i, sizeof i) != sizeof i) ::_exit(3);
  }
}

TEST_F(FileLogTest, AKilledWriterLosesNoAcknowledgedRecord) {
  constexpr int kRounds = 60;
  std::vector<int32_t> last(kRounds, -1);
  for (int round = 0; round < kRounds; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) append_until_killed(*disk_, round, pipe_ends[1]);
    ::close(pipe_ends[1]);
    int32_t& seen = last[static_cast<size_t>(round)];
    for (int i = 0; i <= round; ++i) ASSERT_EQ(::read(pipe_ends[0], &seen, sizeof seen), 4);
    ::kill(child, SIGKILL);
    while (::read(pipe_ends[0], &seen, sizeof seen) == sizeof seen) {
    }
    ::close(pipe_ends[0]);
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFSIGNALED(ended));
  }
  // Each round's records, from 0 to the last acknowledged or the one after, whole and in order.
  const std::vector<std::string> found = records();
  size_t at = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int32_t acknowledged = last[static_cast<size_t>(round)];
    for (int i = 0; i <= acknowledged; ++i) {
      ASSERT_LT(at, found.size());
      ASSERT_EQ(found[at++], record_text(round, i));
    }
    if (at < found.size() && found[at] == record_text(round, acknowledged + 1)) ++at;
  }
  EXPECT_EQ(at, found.size());
}

// --- Segments in a bucket. ----------------------------------------------------------------------

TEST(SegmentLogTest, RecordsUntilASyncAreOneNumberedObject) {
  MemoryStore memory;
  auto log = open_record_log(memory, "ledger.jsonl").value();
  EXPECT_THAT(read_records(memory, "ledger.jsonl").value(), IsEmpty());
  EXPECT_TRUE(log->append("1"));
  EXPECT_TRUE(log->append("2"));
  EXPECT_THAT(memory.list("").value(), IsEmpty()) << "they wait";
  EXPECT_TRUE(log->sync());
  EXPECT_TRUE(log->sync()) << "nothing waits, nothing is written";
  EXPECT_TRUE(log->append("3"));
  EXPECT_TRUE(log->sync());
  EXPECT_EQ(memory.list("").value(), (std::vector<ObjectInfo>{{"ledger.jsonl.d/00000001", 4},
                                                              {"ledger.jsonl.d/00000002", 2}}));
  EXPECT_THAT(read_records(memory, "ledger.jsonl").value(), ElementsAre("1", "2", "3"));
}

TEST(SegmentLogTest, AppendWritesWhatIsOldOrLarge) {
  MemoryStore memory;
  SimClock clock;
  auto log = open_record_log(memory, "log",
                             {.clock = &clock, .age_max = Milliseconds(1000), .bytes_max = 100})
                 .value();
  EXPECT_TRUE(log->append("young"));
  clock.advance(Milliseconds(999));
  EXPECT_TRUE(log->append("young too"));
  EXPECT_THAT(memory.list("").value(), IsEmpty());
  clock.advance(Milliseconds(1));
  EXPECT_TRUE(log->append("due"));
  EXPECT_THAT(read_records(memory, "log").value(), ElementsAre("young", "young too", "due"));
  EXPECT_TRUE(log->append(std::string(50, 'a')));
  EXPECT_EQ(memory.list("").value().size(), 1U);
  EXPECT_TRUE(log->append(std::string(50, 'b')));
  EXPECT_EQ(memory.list("").value().size(), 2U);
}

TEST(SegmentLogTest, WhatCouldNotBeWrittenWaitsAndIsNotTriedWithEveryRecord) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  SimClock clock;
  auto log =
      open_record_log(faulty, "log", {.clock = &clock, .age_max = Milliseconds(1000)}).value();
  EXPECT_TRUE(log->append("1"));
  clock.advance(Milliseconds(1000));
  faulty.inject(2, Fault::fail_before);
  EXPECT_EQ(log->append("2").error().code, Code::unavailable);
  EXPECT_TRUE(log->append("3")) << "not due again yet";
  clock.advance(Milliseconds(1000));
  EXPECT_TRUE(log->append("4"));
  EXPECT_THAT(read_records(memory, "log").value(), ElementsAre("1", "2", "3", "4"));
}

TEST(SegmentLogTest, ALostReplyRepeatsNoRecord) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  auto log = open_record_log(faulty, "log").value();
  EXPECT_TRUE(log->append("1"));
  faulty.inject(2, Fault::fail_after);
  EXPECT_EQ(log->sync().error().code, Code::unavailable);
  EXPECT_TRUE(log->append("2"));
  EXPECT_TRUE(log->sync());
  EXPECT_THAT(read_records(memory, "log").value(), ElementsAre("1", "2"));
}

TEST(SegmentLogTest, WhatWaitsHasALimit) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  auto log = open_record_log(faulty, "log", {.bytes_max = 10}).value();
  for (int i = 2; i < 100; ++i) faulty.inject(i, Fault::fail_before);
  int refused = 0;
  for (int i = 0; i < 50; ++i) {
    if (!log->append("12345")) ++refused;
  }
  EXPECT_GT(refused, 30);
}

TEST(SegmentLogTest, AFullLogIsNotTriedWithEveryRecordEither) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  SimClock clock;
  auto log = open_record_log(faulty, "log",
                             {.clock = &clock, .age_max = Milliseconds(1000), .bytes_max = 10})
                 .value();
  for (int i = 2; i < 100; ++i) faulty.inject(i, Fault::fail_before);
  for (int i = 0; i < 30; ++i) log->append("12345").permit_unchecked_error();
  const int64_t tried = faulty.requests();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(log->append("lost").error().code, Code::exhausted);
  EXPECT_EQ(faulty.requests(), tried);
  clock.advance(Milliseconds(1000));
  for (int i = 2; i < 100; ++i) faulty.inject(i, Fault::delay);
  EXPECT_TRUE(log->append("kept"));
  EXPECT_TRUE(log->sync());
  EXPECT_EQ(read_records(memory, "log").value().back(), "kept");
}

TEST(SegmentLogTest, OpeningAgainGoesOnAfterTheHighestNumber) {
  MemoryStore memory;
  ASSERT_TRUE(memory.put("log.d/00000009", "9\n"));
  ASSERT_TRUE(memory.put("log.d/README", "not a segment\n"));
  ASSERT_TRUE(memory.put("log.d/00000010/x", "not a segment\n"));
  auto log = open_record_log(memory, "log").value();
  ASSERT_TRUE(log->append("10"));
  ASSERT_TRUE(log->sync());
  EXPECT_EQ(memory.get("log.d/00000010").value(), "10\n");
  EXPECT_THAT(read_records(memory, "log").value(), ElementsAre("9", "10"));
}

TEST(SegmentLogTest, ANumberThatAnotherTookIsPassedOver) {
  MemoryStore memory;
  auto old_holder = open_record_log(memory, "log").value();
  auto new_holder = open_record_log(memory, "log").value();
  const auto write = [](RecordLog& log, const char* record) {
    EXPECT_TRUE(log.append(record));
    EXPECT_TRUE(log.sync());
  };
  write(*new_holder, "new 1");
  write(*old_holder, "old 1");
  write(*new_holder, "new 2");
  EXPECT_THAT(read_records(memory, "log").value(), ElementsAre("new 1", "old 1", "new 2"));
}

TEST(SegmentLogTest, ANumberedRaceHasAnEnd) {
  MemoryStore memory;
  auto log = open_record_log(memory, "log").value();
  for (int i = 1; i <= 100; ++i) ASSERT_TRUE(memory.put(fmt::format("log.d/{:08}", i), "x\n"));
  EXPECT_TRUE(log->append("mine"));
  EXPECT_EQ(log->sync().error().code, Code::aborted);
}

TEST(SegmentLogTest, NumbersEndBeforeTheirOrderBreaks) {
  MemoryStore memory;
  ASSERT_TRUE(memory.put("log.d/99999998", "x\n"));
  auto log = open_record_log(memory, "log").value();
  EXPECT_TRUE(log->append("last"));
  EXPECT_TRUE(log->sync());
  EXPECT_TRUE(log->append("one too many"));
  EXPECT_EQ(log->sync().error().code, Code::exhausted);
}

TEST(SegmentLogTest, ATornSegmentIsDropped) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  auto log = open_record_log(faulty, "log").value();
  faulty.inject(3, Fault::tear);
  EXPECT_TRUE(log->append("first"));
  EXPECT_TRUE(log->sync());
  EXPECT_TRUE(log->append("second"));
  EXPECT_EQ(log->sync().error().code, Code::unavailable);
  EXPECT_TRUE(log->sync());
  EXPECT_THAT(read_records(memory, "log").value(), ElementsAre("first", "second"));
}

TEST(SegmentLogTest, FailuresOfTheStoreArePassedUp) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  faulty.inject(1, Fault::fail_before);
  EXPECT_EQ(open_record_log(faulty, "log").error().code, Code::unavailable);
  faulty.inject(2, Fault::fail_before);
  EXPECT_EQ(read_records(faulty, "log").error().code, Code::unavailable);
  EXPECT_EQ(open_record_log(faulty, "log").value()->append("a\nb").error().code, Code::invalid);
}

TEST(SegmentLogTest, ASyncedRecordSurvivesTheMachine) {
  SimFileDoor door;
  auto disk = DiskStore::open("/root", door).value();
  auto log = open_record_log(*disk, "log").value();
  EXPECT_TRUE(log->append("kept"));
  EXPECT_TRUE(log->sync());
  EXPECT_TRUE(log->append("lost"));
  door.crash(SimFileDoor::Unsynced::lost);
  EXPECT_THAT(read_records(*disk, "log").value(), ElementsAre("kept"));
}

}  // namespace
}  // namespace tern
