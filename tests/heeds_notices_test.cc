// What the trainer does about a notice that is no order to leave, and about one that leaves it
// little time: neither changes a bit of the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "forked_run.h"
#include "tiny_data.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

class HeedsNotices : public testing::Test {
 protected:
  HeedsNotices() {
    write_tiny_data(scratch_ / "data", {});
    config_ = tiny_config(scratch_ / "data");
  }

  // Posts what `make` gives, at step 13, between the checkpoints of 10 and 15.
  int train(const std::string& name, std::function<Notice(Clock&)> make = {}) const {
    return run_process(scratch_ / name, config_, {.arrange = [make](ForkedWorld& world) {
                         if (!make) return;
                         world.on_step = [make, &world](const StepEvent& event) {
                           if (event.step == 13) world.board.post(make(world.clock));
                         };
                       }});
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
  void expect_same_as_whole(const std::string& name) const {
    ASSERT_EQ(train("whole"), kExitDone) << log("whole");
    EXPECT_TRUE(read_remains(scratch_ / name) == read_remains(scratch_ / "whole"));
  }

  ScratchFolder scratch_;
  RunConfig config_;
};

TEST_F(HeedsNotices, AdviceSavesAndTheRunGoesOn) {
  ASSERT_EQ(train("run",
                  [](Clock&) {
                    return Notice{.kind = NoticeKind::advice, .source = "a cloud", .id = "7"};
                  }),
            kExitDone)
      << log("run");
  EXPECT_THAT(saved_steps("run"), Contains(13));
  const auto notices = ledger("run", "notice");
  ASSERT_THAT(notices, SizeIs(1));
  EXPECT_EQ(notices[0]["notice"], "advice");
  EXPECT_EQ(notices[0]["id"], "7");
  EXPECT_EQ(notices[0]["step"], 13);
  EXPECT_THAT(log("run"), HasSubstr("saving and going on"));
  const auto report =
      nlohmann::json::parse(read_text(scratch_ / "run" / "report.json"), nullptr, false);
  EXPECT_EQ(report["status"], "done");
  EXPECT_EQ(report["interruptions"], 0);
  expect_same_as_whole("run");
}

TEST_F(HeedsNotices, WithLittleTimeOnlyWhatTheNextProcessNeedsIsWritten) {
  for (const int64_t left_s : {-5, 5, 100}) {
    const std::string name = std::to_string(left_s);
    ASSERT_EQ(train(name,
                    [left_s](Clock& clock) {
                      return Notice{.source = "a cloud",
                                    .deadline_unix_ms = clock.unix_ms() + left_s * 1000};
                    }),
              kExitPreempted)
        << log(name);
    EXPECT_THAT(saved_steps(name), Contains(13));
    EXPECT_EQ(ledger(name, "end")[0]["steps_lost"], 0);
    EXPECT_EQ(std::filesystem::exists(scratch_ / name / "model.safetensors"), left_s == 100);
    EXPECT_EQ(std::filesystem::exists(scratch_ / name / "report.json"), left_s == 100);
    EXPECT_GT(ledger(name, "notice")[0]["deadline_ms"], 1'700'000'000'000);
  }
  ASSERT_EQ(train("5"), kExitDone) << log("5");
  expect_same_as_whole("5");
}

}  // namespace
}  // namespace tern
