#include "train/stall_watch.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>

namespace tern {
namespace {

// The notes that the ranks of a test leave for each other.
struct Notes {
  std::mutex mutex;
  std::map<std::string, std::string> texts;
  int64_t written = 0;
};

// A door to ranks of the same process, of which only notes and progress are used.
class NotesDoor : public RankDoor {
 public:
  explicit NotesDoor(Notes& notes) : notes_(notes) {}

  Result<RankGroup> join(const RankJoin&, std::stop_token) override { return RankGroup{}; }
  std::shared_ptr<RendezvousStore> store(const RankGroup&) override { return nullptr; }
  std::stop_token generation_over() const override { return {}; }
  bool change_is_wanted() const override { return false; }
  void leave(std::string_view) override {}
  Status leave_note(const std::string& key, const std::string& text) override {
    const std::lock_guard lock(notes_.mutex);
    notes_.texts[key] = text;
    ++notes_.written;
    return {};
  }
  Result<std::optional<std::string>> note(const std::string& key) override {
    const std::lock_guard lock(notes_.mutex);
    const auto found = notes_.texts.find(key);
    return found == notes_.texts.end() ? std::nullopt : std::optional(found->second);
  }
  void tell(RankProgress progress) override {
    const std::lock_guard lock(mutex_);
    progress_ = std::move(progress);
    told_.notify_all();
  }

  // Until it has been told that the rank waits for this; else what it was told last.
  std::string wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    told_.wait_for(lock, std::chrono::seconds(60), [&] { return progress_.waits_for == text; });
    return progress_.waits_for;
  }

 private:
  Notes& notes_;
  std::mutex mutex_;
  std::condition_variable told_;
  RankProgress progress_;
};

class StallWatchTest : public testing::Test {
 protected:
  StallWatchTest() : quiet_(std::tmpfile()), log_(clock_, Level::info, quiet_) {}
  ~StallWatchTest() override { std::fclose(quiet_); }

  std::unique_ptr<StallWatch> watch(RankDoor& door, int64_t rank,
                                    Milliseconds least = Milliseconds(40)) {
    auto made = std::make_unique<StallWatch>(StallWatch::Setup{.clock = &clock_,
                                                               .log = &log_,
                                                               .door = &door,
                                                               .least = least,
                                                               .grace = Milliseconds(40),
                                                               .look_every = Milliseconds(5)});
    made->join({.generation = 1,
                .rank = rank,
                .world = 3,
                .interface_address = "",
                .members = {"machine 0, rank 0 (pid 5)", "machine 1, rank 1 (pid 6)",
                            "machine 1, rank 2 (pid 7)"}});
    return made;
  }

  static StallWatch::Work in_collective() {
    return {.what = RankWork::step, .step = 118, .is_waiting = [] { return true; }};
  }
  static StallWatch::Work in_data() {
    return {.what = RankWork::data, .step = 118, .data_waits_for = [] {
              return std::string("object X, attempt 3");
            }};
  }

  std::string logged() {
    std::fflush(quiet_);
    std::rewind(quiet_);
    std::string text(1 << 16, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), quiet_));
    return text;
  }

  SystemClock clock_;
  std::FILE* quiet_;
  Log log_;
  Notes notes_;
};

TEST_F(StallWatchTest, DataThatDoesNotComeIsNamedInHeartbeatAndLog) {
  NotesDoor door(notes_);
  const auto watched = watch(door, 2);
  {
    const StallWatch::Scope scope(*watched, in_data());
    EXPECT_EQ(door.wait_for("batch 118: object X, attempt 3"), "batch 118: object X, attempt 3");
  }
  EXPECT_NE(logged().find("rank 2 waits for batch 118: object X, attempt 3"), std::string::npos);
  EXPECT_NE(logged().find("goes on"), std::string::npos);
}

TEST_F(StallWatchTest, WhoHasNotComeToACollectiveIsNamedWithWhatItWaitsFor) {
  NotesDoor door(notes_);
  NotesDoor second_door(notes_);
  NotesDoor third_door(notes_);
  const auto first = watch(door, 0);
  const auto second = watch(second_door, 1);
  const auto third = watch(third_door, 2);
  const StallWatch::Scope waits(*first, in_collective());
  const std::string silent =
      "all-reduce of step 118: machine 1, rank 1 (pid 6) has not come, and says nothing; machine "
      "1, rank 2 (pid 7) has not come, and says nothing";
  EXPECT_EQ(door.wait_for(silent), silent);
  const StallWatch::Scope fetches(*third, in_data());
  const StallWatch::Scope comes(*second, in_collective());
  const std::string told =
      "all-reduce of step 118: machine 1, rank 2 (pid 7) has not come: it waits for batch 118: "
      "object X, attempt 3";
  EXPECT_EQ(door.wait_for(told), told);
  EXPECT_EQ(second_door.wait_for(told), told) << "every rank says so";
}

TEST_F(StallWatchTest, OneThatComputesIsBusyAndWaitsForNothing) {
  NotesDoor door(notes_);
  NotesDoor second_door(notes_);
  const auto first = watch(door, 0);
  const auto second = watch(second_door, 1);
  StallWatch::Work computes = in_collective();
  computes.is_waiting = [] { return false; };
  const StallWatch::Scope slow(*second, std::move(computes));
  const StallWatch::Scope waits(*first, in_collective());
  const std::string told =
      "all-reduce of step 118: machine 1, rank 1 (pid 6) has not come: it computes step 118; "
      "machine 1, rank 2 (pid 7) has not come, and says nothing";
  EXPECT_EQ(door.wait_for(told), told);
  EXPECT_EQ(logged().find("rank 1 waits for"), std::string::npos);
}

TEST_F(StallWatchTest, WhereAllHaveComeItIsTheNetwork) {
  NotesDoor doors[] = {NotesDoor(notes_), NotesDoor(notes_), NotesDoor(notes_)};
  std::vector<std::unique_ptr<StallWatch>> watches;
  std::vector<std::unique_ptr<StallWatch::Scope>> scopes;
  for (int64_t rank = 0; rank < 3; ++rank) {
    watches.push_back(watch(doors[rank], rank));
    scopes.push_back(std::make_unique<StallWatch::Scope>(*watches.back(), in_collective()));
  }
  const std::string told =
      "all-reduce of step 118: all have come, and the network between them does not answer";
  EXPECT_EQ(doors[0].wait_for(told), told);
  scopes.clear();
}

// A note that outlives its stall would put the blame on a rank that works.
TEST_F(StallWatchTest, ANoteIsTakenBackWhenTheStallIsOver) {
  NotesDoor door(notes_);
  NotesDoor second_door(notes_);
  const auto first = watch(door, 0);
  const auto second = watch(second_door, 1);
  {
    const StallWatch::Scope scope(*second, in_data());
    second_door.wait_for("batch 118: object X, attempt 3");
  }
  const StallWatch::Scope waits(*first, in_collective());
  const std::string told =
      "all-reduce of step 118: machine 1, rank 1 (pid 6) has not come, and says nothing; machine "
      "1, rank 2 (pid 7) has not come, and says nothing";
  EXPECT_EQ(door.wait_for(told), told);
}

TEST_F(StallWatchTest, NothingIsLeftOrSaidWhileStepsEnd) {
  NotesDoor door(notes_);
  {
    const auto watched = watch(door, 0, std::chrono::hours(1));
    for (int i = 0; i < 1000; ++i) const StallWatch::Scope scope(*watched, in_collective());
  }
  EXPECT_EQ(notes_.written, 0);
  EXPECT_EQ(logged(), "");
}

}  // namespace
}  // namespace tern
