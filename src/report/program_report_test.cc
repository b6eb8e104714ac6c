// Reports of any program's run, whose ledger is all that there is.
#include <gmock/gmock.h>

#include "report/recorded_run.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ProgramReportTest : public RecordedRunTest {
 protected:
  void begin_program(const std::string& kind) {
    const Holder holder = me();
    record(kind, {{"step", 0},
                  {"recipe", "python3"},
                  {"command", "python3 train.py"},
                  {"host", holder.host},
                  {"pid", holder.pid},
                  {"token", holder.token},
                  {"holder",
                   {{"boot_id", holder.boot_id},
                    {"pid_namespace", holder.pid_namespace},
                    {"pid_start", holder.pid_start}}}});
  }
  void start_ranks(int64_t generation, const std::vector<std::string>& lost) {
    record("ranks", {{"step", 0},
                     {"generation", generation},
                     {"world", 2},
                     {"lost", lost},
                     {"seconds", lost.empty() ? 0 : 0.25}});
  }
};

TEST_F(ProgramReportTest, TellsWhatHappenedAndNothingOfSteps) {
  begin_program("start");
  start_ranks(1, {});
  record("checkpoint", {{"number", 1}, {"bytes", 1'500'000}, {"why", "program"}});
  clock_.advance(std::chrono::seconds(10));
  start_ranks(2, {"machine 0, rank 1 (pid 7)"});
  end("failed", 0, 20, {{"reason", "the program of rank 0 was killed by signal 9 (Killed)"}});
  begin_program("resume");
  start_ranks(3, {});
  end("done", 0, 5, {{"reason", "the program has ended on all ranks"}});
  const std::string text = format_report(report());
  EXPECT_THAT(text, AllOf(HasSubstr("run runs/demo: done"), HasSubstr("python3 train.py"),
                          HasSubstr("2, started 3 times; 1 lost, at most 0.25 s"),
                          HasSubstr("1 kept, the newest of 1.5 MB"),
                          HasSubstr("failed: the program of rank 0 was killed")));
  EXPECT_THAT(
      text, AllOf(Not(HasSubstr("accuracy")), Not(HasSubstr("samples/s")), Not(HasSubstr("step"))));
  EXPECT_TRUE(report_json(report())["program"].get<bool>());
}

TEST_F(ProgramReportTest, KnowsWhetherItStillRuns) {
  begin_program("start");
  EXPECT_EQ(report().status, RunStatus::running);
  EXPECT_THAT(report().reason, HasSubstr("runs it"));
}

TEST_F(ProgramReportTest, KnowsThatItWasKilled) {
  record("start", {{"recipe", "sh"},
                   {"command", "sh -c true"},
                   {"host", me().host},
                   {"pid", me().pid},
                   {"token", "another"},
                   {"holder",
                    {{"boot_id", me().boot_id},
                     {"pid_namespace", me().pid_namespace},
                     {"pid_start", me().pid_start - 1}}}});
  EXPECT_EQ(report().status, RunStatus::failed);
  EXPECT_THAT(report().reason, HasSubstr("was killed or the machine was lost"));
  EXPECT_THAT(report().next_step, HasSubstr("it starts anew"));
}

}  // namespace
}  // namespace tern
