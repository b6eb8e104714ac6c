#include "cli/run_list.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/test_run.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RunList : public testing::Test {
 protected:
  ListedRun listed(const std::string& name) { return read_listed_run(runs_ / name, runs_.door()); }
  std::string ls(Arguments arguments) {
    arguments.push_back(runs_.path());
    return output_of([&] { return ls_command({}, arguments); });
  }

  TestRuns runs_;
};

TEST_F(RunList, TellsHowFarARunCame) {
  runs_.write_ledger("demo", "preempted");
  runs_.write("demo", "metrics.jsonl",
              "{\"ms\":4000,\"step\":5}\n{\"ms\":9500,\"step\":12}\n{\"to");
  const ListedRun run = listed("demo");
  EXPECT_EQ(run.name, "demo");
  EXPECT_EQ(run.status, "preempted");
  EXPECT_EQ(run.problem, "");
  EXPECT_EQ(run.step, 12);
  EXPECT_EQ(run.total_steps, 20);
  EXPECT_EQ(run.top1, 0.875);
  EXPECT_EQ(run.last_ms, 9500) << "the torn line after it says nothing";
  EXPECT_EQ(run.bytes,
            static_cast<int64_t>(std::filesystem::file_size(runs_ / "demo/ledger.jsonl") +
                                 std::filesystem::file_size(runs_ / "demo/metrics.jsonl")));
}

TEST_F(RunList, TheLastActivityIsFoundAtTheEndOfALargeFile) {
  runs_.write_ledger("demo", "done");
  std::string lines;
  for (int i = 0; i < 5000; ++i)
    lines += R"({"ms":1,"step":1,"loss":0.123456789})"
             "\n";
  runs_.write("demo", "metrics.jsonl", lines + "{\"ms\":77000,\"step\":12}\n");
  EXPECT_EQ(listed("demo").last_ms, 77000);
}

TEST_F(RunList, OnlyFoldersWithARunAreListed) {
  runs_.write_ledger("b", "done");
  runs_.write_ledger("a", "done");
  runs_.write("data", "train.bin", "x");
  runs_.write("somebody", "run.toml", "recipe = \"x\"");
  runs_.write("lightning", "checkpoints/epoch=1.ckpt", "x");
  runs_.write_ledger("line\nbreak", "done");
  runs_.publish("begun", *this_process(), {});
  std::ofstream(runs_ / "a file") << "x";
  EXPECT_THAT(*run_names(runs_.path()), ElementsAre("a", "b", "begun"));
  EXPECT_THAT(*run_names(runs_ / "nowhere"), ElementsAre());
  EXPECT_EQ(ls({"--names"}), "a\nb\nbegun\n");
}

TEST_F(RunList, ADamagedRunIsListedAndStopsNothing) {
  runs_.write("broken", "ledger.jsonl", "\x01\x02 no JSON\n");
  runs_.write("bare", "ledger.jsonl", "");
  runs_.write_ledger("whole", "done");
  EXPECT_EQ(listed("broken").status, "damaged");
  EXPECT_THAT(listed("broken").problem, HasSubstr("ledger.jsonl can be read"));
  EXPECT_EQ(listed("bare").status, "empty");
  const std::string text = ls({});
  EXPECT_THAT(text, HasSubstr("\nbroken  damaged "));
  EXPECT_THAT(text, HasSubstr("\nwhole   done "));
  EXPECT_EQ(std::ranges::count(text, '\n'), 4) << text;
}

TEST_F(RunList, ARunThatLostItsRecordsIsNotCalledEmptyWhileItHasCheckpoints) {
  runs_.publish("lost", *this_process(), {10, 20});
  runs_.publish("one", *this_process(), {10});
  runs_.write("one", "ledger.jsonl", "");
  runs_.publish("none", *this_process(), {});
  EXPECT_EQ(listed("lost").status, "damaged");
  EXPECT_EQ(listed("lost").problem,
            "its records are lost, but 2 checkpoints are there; the same command resumes");
  EXPECT_EQ(listed("one").status, "damaged");
  EXPECT_EQ(listed("one").problem,
            "its records are lost, but 1 checkpoint is there; the same command resumes");
  EXPECT_EQ(listed("none").status, "empty");
}

TEST_F(RunList, WhatMayNotBeReadIsListedAsUnreadable) {
  constexpr uid_t kNobody = 65534;
  const auto no_one = std::filesystem::perms::none;
  runs_.write_ledger("closed", "done");
  runs_.write_ledger("open", "done");
  std::filesystem::permissions(runs_.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(runs_ / "closed", no_one);
  const uid_t before = geteuid();
  if (before == 0 && seteuid(kNobody) != 0) GTEST_SKIP() << "root here cannot become another user";
  const auto names = run_names(runs_.path());
  const ListedRun closed = listed("closed");
  const auto inside = ls_command({}, {runs_ / "closed"});
  const auto below = ls_command({}, {runs_ / "closed/runs"});
  ASSERT_EQ(seteuid(before), 0);
  std::filesystem::permissions(runs_ / "closed", std::filesystem::perms(0755));
  EXPECT_THAT(*names, ElementsAre("closed", "open"));
  EXPECT_EQ(closed.status, "unreadable");
  EXPECT_THAT(closed.problem, HasSubstr("ermission denied"));
  for (const auto& refused : {inside, below}) {
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::permission_denied);
  }
}

TEST_F(RunList, IsALineARunInColumns) {
  std::vector<ListedRun> runs(3);
  runs[0] = {.name = "a",
             .status = "done",
             .step = 938,
             .total_steps = 938,
             .top1 = 0.91234,
             .bytes = 31'200'000,
             .last_ms = 1'000'000};
  runs[1] = {.name = "longer",
             .status = "running",
             .step = 7,
             .total_steps = 9380,
             .last_ms = 999'999'999};
  runs[2] = {.name = "x\x1b[31m", .status = "damaged", .problem = "because"};
  EXPECT_EQ(format_run_list(runs, 1'185'000),
            "run     status         step    top-1     size  last activity\n"
            "a       done     938 of 938  91.23 %  31.2 MB  3 min 05 s ago\n"
            "longer  running   7 of 9380        -      0 B  0 s ago\n"
            "x?[31m  damaged  because\n");
}

TEST_F(RunList, JsonHasEveryFieldAndNullForWhatIsNotKnown) {
  runs_.write_ledger("demo", "stopped");
  runs_.write("broken", "ledger.jsonl", "no JSON\n");
  const auto list = nlohmann::json::parse(ls({"--json"}));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["run"], "broken");
  EXPECT_EQ(list[0]["status"], "damaged");
  EXPECT_TRUE(list[0]["problem"].is_string());
  EXPECT_TRUE(list[0]["top1"].is_null());
  EXPECT_TRUE(list[0]["last_ms"].is_null());
  EXPECT_EQ(list[1]["status"], "stopped");
  EXPECT_EQ(list[1]["step"], 12);
  EXPECT_EQ(list[1]["total_steps"], 20);
  EXPECT_EQ(list[1]["top1"], 0.875);
  EXPECT_EQ(list[1]["last_ms"], 9000);
  EXPECT_GT(list[1]["bytes"], 100);
  EXPECT_TRUE(list[1]["problem"].is_null());
}

TEST_F(RunList, NoRunsIsAClearLineAndAnEmptyArray) {
  EXPECT_THAT(ls({}), HasSubstr("There are no runs in"));
  EXPECT_EQ(ls({"--json"}), "[]\n");
  const auto missing = ls_command({}, {runs_ / "nowhere"});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::not_found);
}

TEST_F(RunList, TheFolderOfOneRunListsThatRun) {
  runs_.write_ledger("demo", "done");
  const std::string text =
      output_of([&] { return ls_command({}, {(runs_ / "demo").string() + "/"}); });
  EXPECT_THAT(text, HasSubstr("\ndemo  done "));
  const std::string by_address =
      output_of([&] { return ls_command({}, {"file://" + (runs_ / "demo").string()}); });
  EXPECT_EQ(by_address, text);
}

TEST_F(RunList, WhatAKilledRemovalLeftIsCalledThat) {
  runs_.write_ledger("demo.removed.12", "done");
  runs_.write_ledger("demo.removed", "done");
  EXPECT_EQ(listed("demo.removed.12").status, "half removed");
  EXPECT_THAT(listed("demo.removed.12").problem, HasSubstr("tern rm demo.removed.12"));
  EXPECT_EQ(listed("demo.removed").status, "done");
}

TEST_F(RunList, RecordedOptionsAreTheRunsOwnOrTheDefault) {
  runs_.write("demo", "run.toml", "recipe = \"x\"\n[lease]\nterm = \"7s\"\n");
  const auto store = DiskStore::open(runs_ / "demo", runs_.door());
  EXPECT_EQ(recorded_options(**store).lease.term, Milliseconds(7000));
  const auto none = DiskStore::open(runs_ / "other", runs_.door());
  EXPECT_EQ(recorded_options(**none).lease.term, LeaseOptions().term);
}

// A power cut may cost the records and leave the checkpoints.
TEST_F(RunList, ARunWhoseRecordsAreLostIsNotAdvisedForRemoval) {
  runs_.publish("cut", dead_holder(), {10, 20});
  runs_.write("cut", "ledger.jsonl", "");
  EXPECT_EQ(listed("cut").status, "damaged");
  EXPECT_THAT(listed("cut").problem, HasSubstr("2 checkpoints are there; the same command"));
}

}  // namespace
}  // namespace tern
