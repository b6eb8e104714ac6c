#include "report/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/recorded_run.h"

namespace tern {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class RunReportTest : public RecordedRunTest {};

TEST_F(RunReportTest, AFinishedRun) {
  begin("start", 0, 0);
  train(0, 20);
  evaluate(2, 0.93);
  train(20, 40);
  evaluate(4, 0.91);
  checkpoint(40);
  end("done", 40, 50.0);

  const RunReport report = this->report();
  EXPECT_EQ(report.run, "runs/demo");
  EXPECT_EQ(report.status, RunStatus::done);
  EXPECT_EQ(report.reason, "all epochs are trained");
  EXPECT_EQ(report.next_step, "");
  EXPECT_EQ(report.recipe, "tiny");
  EXPECT_EQ(report.command, "tern train tiny");
  EXPECT_EQ(report.step, 40);
  EXPECT_EQ(report.total_steps, 40);
  EXPECT_EQ(report.epochs_done, 4);  // 95 samples in batches of 10: the last batch is smaller
  EXPECT_EQ(report.epochs, 4);
  EXPECT_DOUBLE_EQ(report.train_loss.value_or(-1), 1.0 / 40);
  ASSERT_TRUE(report.last_evaluation && report.best_evaluation);
  EXPECT_DOUBLE_EQ(report.last_evaluation->top1, 0.91);
  EXPECT_DOUBLE_EQ(report.best_evaluation->top1, 0.93);
  EXPECT_EQ(report.best_evaluation->epoch, 2);
  EXPECT_EQ(report.steps_lost, 0);
  EXPECT_EQ(report.interruptions, 0);
  EXPECT_DOUBLE_EQ(report.wall_seconds, 50.0);
  EXPECT_EQ(report.samples, 400);
  EXPECT_DOUBLE_EQ(report.samples_per_second, 8.0);
  EXPECT_EQ(report.checkpoints, 1);
  EXPECT_EQ(report.checkpoint_bytes, 1'500'000);
  EXPECT_EQ(report.cost_microusd, std::nullopt);
  EXPECT_THAT(report.warnings, testing::IsEmpty());
  ASSERT_EQ(report.processes.size(), 1U);
  EXPECT_EQ(report.processes[0].ended, "done");
  EXPECT_EQ(report.processes[0].host, "tern-3");
  EXPECT_EQ(report.processes[0].pid, 4711);
}

TEST_F(RunReportTest, APreemptedRunSaysWhereItGoesOn) {
  begin("start", 0, 0);
  train(0, 13);
  record("notice", {{"notice", "preempt"}, {"source", "SIGTERM"}, {"step", 13}});
  checkpoint(13);
  end("preempted", 13, 14.0, {{"reason", "SIGTERM came"}});

  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::preempted);
  EXPECT_EQ(report.reason, "SIGTERM came");
  EXPECT_EQ(report.next_step, "run the same command again: it resumes at step 13");
  EXPECT_EQ(report.interruptions, 1);
  EXPECT_EQ(report.steps_lost, 0);
  EXPECT_EQ(report.processes.at(0).ended, "preempted: SIGTERM");
}

TEST_F(RunReportTest, APreemptedRunThatWasResumedIsDoneWithOneInterruption) {
  begin("start", 0, 0);
  train(0, 13);
  record("notice", {{"notice", "preempt"}, {"source", "SIGTERM"}, {"step", 13}});
  checkpoint(13);
  end("preempted", 13, 14.0);
  clock_.advance(std::chrono::hours(5));  // waiting is not wall time
  begin("resume", 13, 0, {{"pid", 4712}});
  train(13, 40);
  checkpoint(40);
  end("done", 40, 30.0);

  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::done);
  EXPECT_EQ(report.interruptions, 1);
  EXPECT_EQ(report.steps_lost, 0);
  EXPECT_EQ(report.samples, 400);
  EXPECT_DOUBLE_EQ(report.wall_seconds, 44.0);
  ASSERT_EQ(report.processes.size(), 2U);
  EXPECT_EQ(report.processes[0].ended, "preempted: SIGTERM");
  EXPECT_EQ(report.processes[1].ended, "done");
  EXPECT_EQ(report.processes[1].first_step, 13);
  EXPECT_EQ(report.processes[1].last_step, 40);
}

TEST_F(RunReportTest, AKilledAndResumedRunCountsLostAndRepeatedSteps) {
  begin("start", 0, 0);
  train(0, 10);
  checkpoint(10);
  train(10, 17);  // SIGKILL here
  clock_.advance(std::chrono::hours(1));
  begin("resume", 10, 7);
  train(10, 40);
  checkpoint(40);
  end("done", 40, 31.0);

  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::done);
  EXPECT_EQ(report.steps_lost, 7);
  EXPECT_EQ(report.interruptions, 1);
  EXPECT_EQ(report.samples, (17 + 30) * kBatch);
  EXPECT_DOUBLE_EQ(report.wall_seconds, 17.0 + 31.0);  // the killed one: to its last step
  EXPECT_DOUBLE_EQ(report.train_loss.value_or(-1), 1.0 / 40);
  ASSERT_EQ(report.processes.size(), 2U);
  EXPECT_EQ(report.processes[0].ended, "killed without a word");
  EXPECT_EQ(report.processes[0].last_step, 17);
  EXPECT_EQ(report.processes[0].steps_lost, 0);
  EXPECT_EQ(report.processes[1].steps_lost, 7);
}

TEST_F(RunReportTest, ARunHeldByALivingProcessIsRunning) {
  begin("start", 0, 0);
  hold(me(), RecordKind::lease);
  train(0, 10);
  checkpoint(10);
  train(10, 12);

  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::running);
  EXPECT_THAT(report.reason, HasSubstr(me().to_string()));
  EXPECT_THAT(report.reason, HasSubstr(format_utc(clock_.unix_ms())));
  EXPECT_EQ(report.step, 12);
  EXPECT_EQ(report.epochs_done, 1);
  EXPECT_EQ(report.interruptions, 0);
  EXPECT_EQ(report.steps_lost, 0);  // they are not lost while it lives
  EXPECT_DOUBLE_EQ(report.wall_seconds, 12.0);
  EXPECT_EQ(report.processes.at(0).ended, "still running");
}

TEST_F(RunReportTest, ARunHeldOnAnotherMachineMayBeRunning) {
  begin("start", 0, 0);
  Holder elsewhere = me();
  elsewhere.host = "far-away";
  elsewhere.boot_id = "another-boot";
  hold(elsewhere, RecordKind::lease);
  train(0, 3);

  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::running);
  EXPECT_THAT(report.reason, HasSubstr("far-away"));
  EXPECT_THAT(report.next_step, HasSubstr("run the same command again"));
}

TEST_F(RunReportTest, AKilledRunHasFailedAndSaysHowToGoOn) {
  begin("start", 0, 0);
  Holder dead = me();
  dead.pid_start += 1;  // our pid, but of another process: the one meant is gone
  hold(dead, RecordKind::lease);
  train(0, 10);
  checkpoint(10);
  train(10, 19);

  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::failed);
  EXPECT_THAT(report.reason, HasSubstr("it left no end record"));
  EXPECT_EQ(report.next_step, "run the same command again: it resumes at step 10");
  EXPECT_EQ(report.step, 19);
  EXPECT_EQ(report.epochs_done, 1);  // the tenth step of an epoch is a smaller one
  EXPECT_EQ(report.steps_lost, 9);
  EXPECT_EQ(report.interruptions, 1);
  EXPECT_EQ(report.processes.at(0).ended, "killed without a word");
}

TEST_F(RunReportTest, AReleasedRunWithoutAnEndRecordIsNotRunning) {
  begin("start", 0, 0);
  hold(me(), RecordKind::lease);
  hold(me(), RecordKind::release);
  EXPECT_EQ(report().status, RunStatus::failed);
}

TEST_F(RunReportTest, ACalendarThatJumpsInsideAKilledProcessCostsNothing) {
  price_ = 3'600'000;  // a thousand micro-dollars a second
  begin("start", 0, 0);
  auto log = open_record_log(run_, kMetricsObject);
  ASSERT_TRUE(log.has_value());
  for (int64_t step = 1; step <= 10; ++step) {
    clock_.advance(std::chrono::seconds(1));
    if (step == 5) clock_.jump_calendar(std::chrono::hours(24 * 365));
    const json line = {{"step", step},
                       {"samples", 10},
                       {"us", {{"compute", 1'000'000}}},
                       {"ms", clock_.unix_ms()}};
    ASSERT_TRUE((*log)->append(line.dump()));
    ASSERT_TRUE((*log)->sync());
  }
  begin("resume", 0, 10);
  end("done", 0, 0.0);
  EXPECT_DOUBLE_EQ(report().processes.at(0).wall_seconds, 10.0);
  EXPECT_EQ(report().cost_microusd, 10'000);
}

TEST_F(RunReportTest, AFailedRunTellsTheCauseAndTheStepsLost) {
  begin("start", 0, 0);
  train(0, 10);
  checkpoint(10);
  train(10, 15);
  record("warning", {{"what", "checkpoint at step 15 failed: disk full"}, {"step", 15}});
  end("failed", 15, 16.0, {{"reason", "disk full"}, {"steps_lost", 5}, {"exit_code", 6}});

  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::failed);
  EXPECT_EQ(report.reason, "disk full");
  EXPECT_EQ(report.next_step,
            "remove the cause, then run the same command again: it resumes at step 10");
  EXPECT_EQ(report.steps_lost, 5);
  EXPECT_EQ(report.interruptions, 1);
  EXPECT_EQ(report.processes.at(0).ended, "failed: disk full");
  EXPECT_THAT(report.warnings, ElementsAre("checkpoint at step 15 failed: disk full"));
}

TEST_F(RunReportTest, StepsLostAtAnEndAreNotCountedAgainByTheResume) {
  begin("start", 0, 0);
  train(0, 15);
  end("failed", 15, 16.0, {{"steps_lost", 15}});
  begin("resume", 0, 15);
  train(0, 40);
  end("done", 40, 41.0);
  EXPECT_EQ(report().steps_lost, 15);
}

TEST_F(RunReportTest, AFailureBeforeAnyCheckpointStartsAgain) {
  begin("start", 0, 0);
  end("failed", 0, 1.0, {{"reason", "out of memory"}});
  EXPECT_THAT(report().next_step, HasSubstr("it starts at step 0"));
}

TEST_F(RunReportTest, AResumeFromAnOlderCheckpointMovesTheResumeStepBack) {
  begin("start", 0, 0);
  train(0, 20);
  checkpoint(10);
  checkpoint(20);
  end("stopped", 20, 20.0);
  begin("resume", 10, 10);  // the checkpoint of step 20 was damaged
  end("stopped", 10, 1.0);
  const RunReport report = this->report();
  EXPECT_THAT(report.next_step, HasSubstr("resumes at step 10"));
  EXPECT_EQ(report.step, 10);
  EXPECT_DOUBLE_EQ(report.train_loss.value_or(-1), 1.0 / 10);
}

TEST_F(RunReportTest, AContinuationWithMoreStepsIsNoInterruption) {
  begin("start", 0, 0, {{"total_steps", 20}});
  train(0, 20);
  checkpoint(20);
  end("done", 20, 20.0);
  begin("resume", 20, 0, {{"total_steps", 30}});
  train(20, 30);
  end("done", 30, 10.0);
  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::done);
  EXPECT_EQ(report.interruptions, 0);
  EXPECT_EQ(report.total_steps, 30);
  EXPECT_THAT(format_report(report), HasSubstr("interruptions  none\n"));
}

TEST_F(RunReportTest, AnEmptyFolderIsNotFoundWithANextStep) {
  const auto report = read_report(run_, "runs/nothing");
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::not_found);
  EXPECT_THAT(report.error().message, HasSubstr("tern train RECIPE --run runs/nothing"));
}

TEST_F(RunReportTest, CostIsEachProcessAtItsOwnPriceAndNothingIfOneIsUnknown) {
  price_ = 3'600'000;  // a thousand micro-dollars a second
  begin("start", 0, 0);
  train(0, 10);
  end("preempted", 10, 10.0);
  price_ = 7'200'000;
  begin("resume", 10, 0);
  train(10, 20);
  end("preempted", 20, 20.0);
  EXPECT_EQ(report().cost_microusd, 10 * 1000 + 20 * 2000);
  EXPECT_THAT(format_report(report()), HasSubstr("$0.0500"));

  price_ = kUnknownPrice;
  begin("resume", 20, 0);
  end("done", 40, 20.0);
  EXPECT_EQ(report().cost_microusd, std::nullopt);
  EXPECT_THAT(format_report(report()), Not(HasSubstr("cost")));

  const auto priced = read_report(run_, "runs/demo", {.price_microusd_per_hour = 36'000'000});
  ASSERT_TRUE(priced.has_value());
  EXPECT_EQ(priced->cost_microusd, 10'000 * (10 + 20 + 20));  // all of them at the price given
}

TEST_F(RunReportTest, AStepIsOfTheProcessWhoseLeaseItCarries) {
  begin("start", 0, 0);
  train(0, 10);
  const int64_t first = lease_;
  clock_.jump_calendar(-std::chrono::hours(1));  // the next machine's clock is behind
  begin("resume", 5, 5);
  train(5, 12);
  const int64_t second = lease_;
  lease_ = first;  // the first was only thought dead
  train(12, 13);
  lease_ = second;
  train(12, 20);
  end("stopped", 20, 15.0);
  const RunReport report = this->report();
  ASSERT_EQ(report.processes.size(), 2U);
  EXPECT_EQ(report.processes[0].last_step, 13);
  EXPECT_EQ(report.processes[1].last_step, 20);
  EXPECT_EQ(report.step, 20);
}

TEST_F(RunReportTest, AProcessThatDiedBeforeItsMarkTakesNoStepsOfTheNext) {
  begin("start", 0, 0);
  train(0, 10);
  clock_.advance(std::chrono::seconds(1));
  record("resume", {{"step", 10}, {"steps_lost", 0}});  // and no mark
  clock_.advance(std::chrono::seconds(1));
  begin("resume", 10, 0);
  train(10, 15);
  const RunReport report = this->report();
  ASSERT_EQ(report.processes.size(), 3U);
  EXPECT_EQ(report.processes[0].last_step, 10);
  EXPECT_EQ(report.processes[1].last_step, 10);
  EXPECT_EQ(report.processes[2].last_step, 15);
}

TEST_F(RunReportTest, ABranchedRunSaysWhereItCameFrom) {
  begin("start", 120, 0, {{"from", {{"run", "runs/a"}, {"step", 120}, {"checkpoint", 7}}}});
  EXPECT_EQ(report().branched_from, "runs/a@120");
  EXPECT_THAT(format_report(report()),
              HasSubstr("recipe         tiny, branched from runs/a@120\n"));
  begin("resume", 130, 0);
  EXPECT_EQ(report().branched_from, "runs/a@120");
}

TEST_F(RunReportTest, RanksThatWereLostAndTheSlowestOneAreTold) {
  begin("start", 0, 0);
  record("ranks",
         {{"step", 1}, {"generation", 1}, {"world", 3}, {"lost", nlohmann::json::array()}});
  train(0, 5, {{"compute", 600'000}, {"communication", 400'000}});
  record("ranks",
         {{"step", 6}, {"generation", 2}, {"world", 2}, {"lost", {"rank 2"}}, {"seconds", 0.09}});
  train(5, 40, {{"compute", 600'000}, {"communication", 400'000}});
  const auto member = [](const char* name, double seconds) {
    return nlohmann::json{{"name", name}, {"steps", 40}, {"busy_seconds", seconds}};
  };
  end("done", 40, 40,
      {{"seconds", {{"compute", 24.0}, {"communication", 16.0}}},
       {"ranks",
        {{"world", 2},
         {"bytes_per_step", 1'200'000},
         {"members", {member("rank 0", 24), member("rank 1", 38), 7}}}}});
  const RunReport told = report();
  ASSERT_TRUE(told.ranks.has_value());
  EXPECT_EQ(told.ranks->world, 2);
  EXPECT_EQ(told.ranks->generations, 2);
  EXPECT_EQ(told.ranks->lost, 1);
  EXPECT_EQ(told.ranks->slowest, "rank 1");
  EXPECT_NEAR(told.ranks->slowest_seconds, 14, 1e-9);
  EXPECT_THAT(told.verdict, StartsWith("straggler-bound: rank 1 takes 1.6 times"));
  EXPECT_THAT(
      format_report(told),
      HasSubstr("ranks          2, 1 lost, at most 0.09 s without a step, each sends 1.2 MB "
                "a step"));
  EXPECT_THAT(format_report(told), HasSubstr("  communication       16 s  40.0 %"));
  EXPECT_EQ(report_json(told).at("ranks").at("bytes_per_step"), 1'200'000);
}

}  // namespace
}  // namespace tern
