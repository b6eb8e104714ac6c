#include "storage/faulty_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/disk_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

using testing::ElementsAre;

class FaultyStoreTest : public testing::Test {
 protected:
  FaultyStoreTest() { TERN_CHECK(memory_.put("old", "12345678")); }

  std::string stored(const std::string& name) { return memory_.get(name).value_or("absent"); }

  MemoryStore memory_;
  FaultyStore faulty_{memory_};
};

TEST_F(FaultyStoreTest, CountsAndNamesEveryRequest) {
  EXPECT_EQ(faulty_.requests(), 0);
  EXPECT_TRUE(faulty_.put("a", "x"));
  EXPECT_FALSE(faulty_.create("a", "x"));
  EXPECT_TRUE(faulty_.get("a"));
  EXPECT_TRUE(faulty_.get_range("a", 0, 1));
  EXPECT_TRUE(faulty_.stat("a"));
  EXPECT_TRUE(faulty_.list("p"));
  EXPECT_TRUE(faulty_.remove("a"));
  faulty_.local_path("a");
  EXPECT_EQ(faulty_.requests(), 7);
  EXPECT_THAT(faulty_.history(), ElementsAre("put a", "create a", "get a", "get_range a", "stat a",
                                             "list p", "remove a"));
}

TEST_F(FaultyStoreTest, FailBeforeDoesNothing) {
  for (int64_t n = 1; n <= 7; ++n) faulty_.inject(n, Fault::fail_before);
  EXPECT_EQ(faulty_.put("a", "x").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.create("a", "x").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.remove("old").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.get("old").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.get_range("old", 0, 1).error().code, Code::unavailable);
  EXPECT_EQ(faulty_.stat("old").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.list("").error().code, Code::unavailable);
  EXPECT_EQ(stored("a"), "absent");
  EXPECT_EQ(stored("old"), "12345678");
  EXPECT_TRUE(faulty_.put("a", "x"));  // the eighth has no plan
}

TEST_F(FaultyStoreTest, FailAfterHasDoneIt) {
  for (int64_t n = 1; n <= 4; ++n) faulty_.inject(n, Fault::fail_after);
  EXPECT_EQ(faulty_.put("a", "x").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.create("b", "y").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.remove("old").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.get("a").error().code, Code::unavailable);
  EXPECT_EQ(stored("a"), "x");
  EXPECT_EQ(stored("b"), "y");
  EXPECT_EQ(stored("old"), "absent");
}

TEST_F(FaultyStoreTest, TearStoresHalf) {
  for (int64_t n = 1; n <= 3; ++n) faulty_.inject(n, Fault::tear);
  EXPECT_EQ(faulty_.put("old", "abcdef").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.create("b", "ghij").error().code, Code::unavailable);
  EXPECT_EQ(faulty_.remove("old").error().code, Code::unavailable);
  EXPECT_EQ(stored("old"), "abc");
  EXPECT_EQ(stored("b"), "gh");
}

TEST_F(FaultyStoreTest, LoseAcknowledgesWhatItDidNotDo) {
  for (int64_t n = 1; n <= 4; ++n) faulty_.inject(n, Fault::lose);
  EXPECT_TRUE(faulty_.put("a", "x"));
  EXPECT_TRUE(faulty_.create("b", "y"));
  EXPECT_TRUE(faulty_.remove("old"));
  EXPECT_EQ(faulty_.get("old").error().code, Code::unavailable);
  EXPECT_EQ(memory_.list("").value(), (std::vector<ObjectInfo>{{"old", 8}}));
}

TEST_F(FaultyStoreTest, DelayWaitsAndThenDoesIt) {
  SimClock clock;
  faulty_.inject_delay(1, clock, Milliseconds(1500));
  EXPECT_TRUE(faulty_.put("a", "x"));
  EXPECT_EQ(clock.now(), Milliseconds(1500));
  EXPECT_EQ(stored("a"), "x");
}

TEST_F(FaultyStoreTest, DuplicateSendsTwiceAndTheFirstReplyCounts) {
  FaultyStore counting(memory_);
  FaultyStore faulty(static_cast<ObjectStore&>(counting));
  faulty.inject(1, Fault::duplicate);
  faulty.inject(2, Fault::duplicate);
  EXPECT_TRUE(faulty.create("a", "x"));
  EXPECT_EQ(faulty.get("a").value(), "x");
  EXPECT_EQ(faulty.requests(), 2);
  EXPECT_THAT(counting.history(), ElementsAre("create a", "create a", "get a", "get a"));
}

TEST_F(FaultyStoreTest, TheHookRunsWhereTheFaultStrikes) {
  std::vector<std::string> seen;
  const auto look = [&] { seen.push_back(stored("a")); };
  faulty_.inject(1, Fault::fail_before, look);
  faulty_.inject(2, Fault::tear, look);
  faulty_.inject(3, Fault::fail_after, look);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(faulty_.put("a", "xyzw").error().code, Code::unavailable);
  EXPECT_THAT(seen, ElementsAre("absent", "xy", "xyzw"));
}

// What is on the disk after a process was killed in its first request, a put of "whole".
std::string after_kill_at(Fault fault) {
  std::string folder = testing::TempDir() + "faulty_XXXXXX";
  TERN_CHECK(::mkdtemp(folder.data()) != nullptr);
  RealFileDoor door;
  auto disk = DiskStore::open(folder, door).value();
  const pid_t child = ::fork();
  if (child == 0) {
    FaultyStore faulty(*disk);
    faulty.inject(1, fault, [] { ::raise(SIGKILL); });
    faulty.put("x", "whole!").permit_unchecked_error();
    ::_exit(0);
  }
  int ended = 0;
  EXPECT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
  const std::string found = disk->get("x").value_or("absent");
  std::filesystem::remove_all(folder);
  return found;
}

TEST(FaultyStoreKill, AHookCanKillTheProcessAtEachPoint) {
  EXPECT_EQ(after_kill_at(Fault::fail_before), "absent");
  EXPECT_EQ(after_kill_at(Fault::fail_after), "whole!");
  EXPECT_EQ(after_kill_at(Fault::tear), "who");
}

}  // namespace
}  // namespace tern
