// Calendars that jump, and a disk so slow that the lease runs out while one waits for it: neither
// changes a bit of a run, and whoever lost the run to another publishes nothing more.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "forked_run.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "storage/prefix_store.h"
#include "storage/sequence.h"
#include "tiny_data.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using std::chrono::hours;
using testing::HasSubstr;

constexpr Milliseconds kDay = hours(24);

class BadClocks : public testing::Test {
 protected:
  BadClocks() {
    write_tiny_data(scratch_ / "data", {});
    config_ = tiny_config(scratch_ / "data");
  }

  int train(const std::string& name, std::function<void(ForkedWorld&)> arrange = {}) const {
    return run_process(scratch_ / name, config_, {.arrange = std::move(arrange)});
  }
  std::string log(const std::string& name) const { return read_text(scratch_ / (name + ".log")); }
  std::vector<nlohmann::json> ledger(const std::string& name, const std::string& kind) const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(read_text(scratch_ / name / "ledger.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json["kind"] == kind) found.push_back(std::move(json));
    }
    return found;
  }
  std::vector<int64_t> saved_steps(const std::string& name) const {
    std::vector<int64_t> steps;
    for (const auto& record : ledger(name, "checkpoint")) steps.push_back(record["step"]);
    return steps;
  }
  nlohmann::json report(const std::string& name) const {
    return nlohmann::json::parse(read_text(scratch_ / name / "report.json"), nullptr, false);
  }
  void expect_same_as_whole(const std::string& name) const {
    ASSERT_EQ(train("whole"), kExitDone) << log("whole");
    const Remains remains = read_remains(scratch_ / name);
    EXPECT_EQ(remains.complaint, "");
    EXPECT_TRUE(remains == read_remains(scratch_ / "whole"));
  }

  ScratchFolder scratch_;
  RunConfig config_;
};

TEST_F(BadClocks, ACalendarThatJumpsBetweenStepsChangesNothing) {
  const auto jump = [](ForkedWorld& world) {
    world.on_step = [&world](const StepEvent& event) {
      const int64_t days = (event.step % 2 == 0 ? -1 : 1) * 3 * event.step;
      world.clock.jump_calendar(kDay * days);
    };
  };
  ASSERT_EQ(train("run", jump), kExitDone) << log("run");
  expect_same_as_whole("run");
  EXPECT_EQ(saved_steps("run"), saved_steps("whole")) << "the cadence went by the calendar";
  // A step is a second of the clock that only goes forward.
  EXPECT_EQ(report("run")["wall_seconds"], report("whole")["wall_seconds"]);
  for (const auto& record : ledger("run", "checkpoint")) EXPECT_GE(record["seconds"], 0);
  for (const auto& record : ledger("run", "evaluation")) EXPECT_GE(record["seconds"], 0);
}

TEST_F(BadClocks, ProcessesWhoseCalendarsDisagreeFollowEachOther) {
  const auto live = [&](int64_t days, int64_t until, bool is_kill) {
    return train("run", [=](ForkedWorld& world) {
      world.clock.jump_calendar(kDay * days);
      world.on_step = [=, &world](const StepEvent& event) {
        if (event.step != until) return;
        if (is_kill) raise(SIGKILL);
        world.board.post({.source = "the test"});
      };
    });
  };
  ASSERT_EQ(live(0, 13, false), kExitPreempted) << log("run");
  ASSERT_EQ(live(-400, 22, true), -SIGKILL) << log("run");
  ASSERT_EQ(live(4000, 31, false), kExitPreempted) << log("run");
  ASSERT_EQ(live(-20'000, 1000, false), kExitDone) << log("run");  // in 1969
  expect_same_as_whole("run");
  const auto resumes = ledger("run", "resume");
  ASSERT_EQ(resumes.size(), 3u);
  EXPECT_EQ(resumes[0]["step"], 13);
  EXPECT_EQ(resumes[1]["step"].get<int64_t>() + resumes[1]["steps_lost"].get<int64_t>(), 22);
  EXPECT_EQ(resumes[2]["step"], 31);
  EXPECT_EQ(report("run")["status"], "done");
  ASSERT_EQ(report("run")["processes"].size(), 4u);
  const auto told = report("run");  // outlives the loop over a part of it
  for (const auto& process : told["processes"]) {
    EXPECT_GE(process["wall_seconds"], 0) << process;
    EXPECT_LE(process["wall_seconds"], 60) << process;
  }
}

TEST_F(BadClocks, ADiskSlowerThanTheLeaseCostsOnlyTime) {
  // Every request takes longer than the term, after which another machine might take the run.
  ASSERT_EQ(train("run",
                  [&](ForkedWorld& world) {
                    for (int64_t request = 1; request < 10'000; ++request) {
                      world.store.inject_delay(request, world.clock, config_.lease.term * 2);
                    }
                  }),
            kExitDone)
      << log("run");
  const Remains remains = read_remains(scratch_ / "run");
  ASSERT_EQ(train("whole"), kExitDone);
  const Remains whole = read_remains(scratch_ / "whole");
  EXPECT_EQ(remains.losses, whole.losses);
  EXPECT_EQ(remains.blobs.size(), 1u);
  EXPECT_TRUE(remains.weights == whole.weights);
  EXPECT_EQ(report("run")["status"], "done");
}

// While the run waits for its disk another machine takes it. Nothing may be published over that
// one's record, whichever request it was; and the run ends as it would have.
TEST_F(BadClocks, ARunThatIsTakenWhileAnyRequestIsSlowPublishesNothingMore) {
  config_.train.epochs = 2;
  ASSERT_EQ(train("whole"), kExitDone);
  const auto requests = static_cast<int64_t>(requests_of(scratch_ / "whole").size());
  for (int64_t request = 1; request <= requests; request += interrupt_every()) {
    SCOPED_TRACE(fmt::format("request {}", request));
    std::filesystem::remove_all(scratch_ / "run");
    std::filesystem::remove(scratch_ / "run.log");
    const int exit_code = train("run", [&](ForkedWorld& world) {
      world.store.inject(request, Fault::delay, [&] {
        PrefixStore checkpoints(world.kept, "checkpoints");
        Holder other = world.setup.me;
        other.token = "another";
        other.boot_id = "another boot";
        auto taken =
            Sequence::take({.store = &checkpoints, .clock = &world.clock, .me = other}, {});
        write_text(scratch_ / "taken", std::to_string(taken ? (*taken)->lease_number() : 0));
      });
    });
    ASSERT_TRUE(exit_code == kExitLostLease || exit_code == kExitDone) << exit_code << log("run");
    if (exit_code == kExitLostLease) {
      EXPECT_THAT(log("run"), HasSubstr("lost the run to pid"));
      EXPECT_TRUE(ledger("run", "end").empty());
      RealFileDoor door;
      const auto disk = DiskStore::open(scratch_ / "run", door);
      PrefixStore checkpoints(**disk, "checkpoints");
      EXPECT_EQ(std::to_string(newest_record(checkpoints)->number), read_text(scratch_ / "taken"));
    }
    ASSERT_EQ(train("run"), kExitDone) << log("run");
    EXPECT_TRUE(read_remains(scratch_ / "run") == read_remains(scratch_ / "whole"));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tern
