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

TEST_F(RunReportTest, ADamagedNewestRecordOfTheSequenceIsNamedAndPassedOver) {
  begin("start", 0, 0);
  hold(me(), RecordKind::lease);
  ASSERT_TRUE(run_.create("checkpoints/" + record_object(2), "garbage"));
  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::running);
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("record 2 is damaged")));
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

TEST_F(RunReportTest, ATornLastLineIsDropped) {
  const std::string start = R"({"kind":"start","ms":1000,"step":0})"
                            "\n";
  const std::string checkpoint = R"({"kind":"checkpoint","ms":2000,"step":5,"bytes":7})"
                                 "\n";
  const std::string end = R"({"kind":"end","ms":3000,"status":"done","step":9})"
                          "\n";
  hold(me(), RecordKind::lease);
  for (size_t kept = 0; kept < end.size(); ++kept) {
    ASSERT_TRUE(run_.put(kLedgerObject, start + checkpoint + end.substr(0, kept)));
    const RunReport report = this->report();
    EXPECT_EQ(report.status, RunStatus::running) << "cut after " << kept;
    EXPECT_EQ(report.step, 5) << "cut after " << kept;
    EXPECT_THAT(report.warnings, testing::IsEmpty()) << "cut after " << kept;
  }
  ASSERT_TRUE(run_.put(kLedgerObject, start + checkpoint + end));
  EXPECT_EQ(report().status, RunStatus::done);
}

TEST_F(RunReportTest, GarbageLinesAreSkippedAndCountedAsAWarning) {
  ASSERT_TRUE(run_.put(kLedgerObject,
                       "\xff\xfe garbage\n"
                       "{\"kind\":\"start\",\"ms\":1000,\"step\":0}\n"
                       "[]\n"
                       "{\"kind\":\"evaluation\",\"top1\":\"high\"}\n"
                       "{\"kind\":\"end\",\"ms\":3000,\"status\":\"done\",\"step\":9}\n"));
  ASSERT_TRUE(run_.put(kMetricsObject, "{\"step\":1,\"samples\":10,\"ms\":1500}\nnull\n"));
  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::done);
  EXPECT_EQ(report.samples, 10);
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("4 damaged lines")));
}

TEST_F(RunReportTest, FieldsOfWrongTypeOrSizeNeverStopAReport) {
  const std::vector<json> values = {nullptr,    true,          -1,     "text",
                                    1e300,      json::array(), -1e300, int64_t{-1} - INT64_MAX,
                                    UINT64_MAX, json::object()};
  const std::vector<std::string> names = {
      "ms",    "at",          "kind",         "price_microusd_per_hour",
      "step",  "steps_lost",  "host",         "pid",
      "token", "total_steps", "epochs",       "samples_per_epoch",
      "batch", "status",      "wall_seconds", "reason",
      "bytes", "what",        "top1",         "loss",
      "epoch", "source",      "samples"};
  price_ = 1'000'000;
  for (const json& value : values) {
    for (const std::string& name : names) {
      std::string lines;
      for (const char* kind : {"start", "notice", "checkpoint", "warning", "evaluation", "end"}) {
        json line = {{"kind", kind}, {"ms", 1}, {"status", "done"}, {"step", 4}, {"top1", 0.5}};
        line[name] = value;
        lines += line.dump() + "\n";
      }
      ASSERT_TRUE(run_.put(kLedgerObject, lines));
      ASSERT_TRUE(run_.put(kMetricsObject, json{{"step", 1}, {name, value}}.dump() + "\n"));
      const RunReport report = this->report();
      EXPECT_FALSE(report_json(report).dump().empty()) << name << " = " << value;
      EXPECT_FALSE(format_report(report).empty()) << name << " = " << value;
    }
  }
}

TEST_F(RunReportTest, ALossThatIsNoNumberIsNull) {
  begin("start", 0, 0);
  ASSERT_TRUE(run_.put(kMetricsObject,
                       "{\"step\":1,\"loss\":0.5,\"samples\":10,\"ms\":1}\n"
                       "{\"step\":2,\"loss\":null,\"samples\":10,\"ms\":2}\n"));
  record("evaluation",
         {{"epoch", 1}, {"step", 2}, {"loss", nullptr}, {"top1", 0.1}, {"top5", 0.5}});
  end("done", 2, 1.0);
  const RunReport report = this->report();
  EXPECT_EQ(report.train_loss, std::nullopt);
  EXPECT_TRUE(report_json(report).at("loss").is_null());
  EXPECT_THAT(format_report(report), Not(HasSubstr("nan")));
}

TEST_F(RunReportTest, AnEmptyFolderIsNotFoundWithANextStep) {
  const auto report = read_report(run_, "runs/nothing");
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::not_found);
  EXPECT_THAT(report.error().message, HasSubstr("tern train RECIPE --run runs/nothing"));
}

TEST_F(RunReportTest, ALedgerOfGarbageAloneIsCorrupt) {
  ASSERT_TRUE(run_.put(kLedgerObject, "what\nis this\n"));
  const auto report = read_report(run_, "runs/demo");
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::corrupt);
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
}

}  // namespace
}  // namespace tern
