// What a run tells about itself, with the real program: where its time went, what it ran on, and
// whether this machine computes what the last one did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>

#include "core/clock.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class TellsWhereTimeWent : public testing::Test {
 protected:
  // `tern WORDS...` with variables that LibTorch reads.
  Finished tern_with(const std::map<std::string, std::string>& variables,
                     const std::vector<std::string>& words) const {
    Process::Start start = place_.start(words);
    start.environment.insert(variables.begin(), variables.end());
    return run_to_end(start);
  }

  static double sum(const json& seconds) {
    double total = 0;
    for (const auto& [name, value] : seconds.items()) total += value.get<double>();
    return total;
  }

  // What a CPU of 2003 has.
  const std::map<std::string, std::string> old_cpu_ = {{"ATEN_CPU_CAPABILITY", "default"},
                                                       {"ONEDNN_MAX_CPU_ISA", "SSE41"}};
  WorkFolder place_;
};

TEST_F(TellsWhereTimeWent, TheSpansAddUpToTheTimeThatASpectatorMeasures) {
  SystemClock clock;
  const Nanoseconds before = clock.now();
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "300"})).exit_code, 0);
  const double watched = to_seconds(clock.now() - before);
  const json report = place_.report("run");
  const double wall = report["wall_seconds"];
  EXPECT_EQ(report["seconds"].size(), 10U);
  EXPECT_NEAR(sum(report["seconds"]), wall, 0.02 * wall);
  // The spectator also sees the process begin and end: fork, exec, and giving memory back.
  EXPECT_LE(wall, watched + 0.02);
  EXPECT_GE(wall, 0.5 * watched);
  EXPECT_GT(report["seconds"]["start"], 0);
  EXPECT_GT(report["seconds"]["compute"], 0);
  EXPECT_GT(report["seconds"]["checkpoint"], 0);
  EXPECT_GT(report["seconds"]["evaluation"], 0);
}

TEST_F(TellsWhereTimeWent, AKilledProcessHasLeftItsSpansStepByStep) {
  Process process(place_.start(WorkFolder::train("run")));
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("run") > 50; }));
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().exit_code, -SIGKILL);
  const json report = place_.report("run");
  EXPECT_EQ(report["status"], "failed");
  const double wall = report["wall_seconds"];
  const double start = report["seconds"]["start"];
  EXPECT_GT(start, 0);
  EXPECT_GT(report["seconds"]["compute"], 0);
  // Its wall time counts from its first record, its spans from exec.
  EXPECT_LE(sum(report["seconds"]) - start, wall + 0.02);
}

TEST_F(TellsWhereTimeWent, TheReportNamesMachineAndUse) {
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "30"})).exit_code, 0);
  const json report = place_.report("run");
  EXPECT_GT(report["cpu_user_seconds"], 0);
  EXPECT_GE(report["cpu_system_seconds"], 0);
  EXPECT_GT(report["peak_memory_bytes"], 10'000'000);
  EXPECT_FALSE(report["machine"]["cpu"].get<std::string>().empty());
  EXPECT_GT(report["machine"]["memory_bytes"], 0);
  EXPECT_GE(report["machine"]["cores"], 1);
  EXPECT_THAT(report["fingerprint"].get<std::string>(), MatchesRegex("[0-9a-f]{16}"));
  EXPECT_FALSE(report["verdict"].get<std::string>().empty());
  EXPECT_TRUE(report["cost_microusd"].is_null());
  const json start = place_.ledger("run", "start").at(0);
  EXPECT_EQ(start["libtorch"], "2.11.0");
  EXPECT_THAT(start["command"].get<std::string>(), HasSubstr("--steps 30"));
  EXPECT_FALSE(start["machine"]["kernel"].get<std::string>().empty());
}

TEST_F(TellsWhereTimeWent, APriceMakesACost) {
  ASSERT_EQ(place_.tern(WorkFolder::train("run", {"--steps", "30"})).exit_code, 0);
  const Finished priced = place_.tern({"report", "run", "--json", "--price", "3.6/h"});
  ASSERT_EQ(priced.exit_code, 0) << priced.err;
  const json report = json::parse(priced.out);
  const double cost = report["cost_microusd"];
  EXPECT_NEAR(cost, report["wall_seconds"].get<double>() * 1000, 1);
  EXPECT_EQ(place_.tern({"report", "run", "--price", "cheap"}).exit_code, kExitUsage);
}

TEST_F(TellsWhereTimeWent, AMachineWithOtherArithmeticIsNamedAndTheRunGoesOn) {
  ASSERT_EQ(tern_with(old_cpu_, WorkFolder::train("run", {"--steps", "10"})).exit_code, 0);
  const Finished same = tern_with(old_cpu_, WorkFolder::train("run", {"--steps", "11"}));
  EXPECT_THAT(same.err, Not(HasSubstr("other bits")));
  const Finished other = place_.tern(WorkFolder::train("run", {"--steps", "20"}));
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("this machine gives other bits"));
  EXPECT_EQ(place_.report("run")["step"], 20);
  // The checkpoint is now this machine's.
  const Finished again = place_.tern(WorkFolder::train("run", {"--steps", "21"}));
  EXPECT_THAT(again.err, Not(HasSubstr("other bits")));
}

TEST_F(TellsWhereTimeWent, AMachineWithOtherArithmeticStopsTheRunIfThatIsWanted) {
  const std::vector<std::string> strict = {"--set", "train.on_other_bits=stop", "--steps", "10"};
  ASSERT_EQ(tern_with(old_cpu_, WorkFolder::train("run", strict)).exit_code, 0);
  const Finished other =
      place_.tern(WorkFolder::train("run", {"--set", "train.on_other_bits=stop", "--steps", "20"}));
  EXPECT_EQ(other.exit_code, kExitPrecondition) << other.err;
  EXPECT_THAT(other.err, HasSubstr("train.on_other_bits=go_on"));
  EXPECT_EQ(place_.report("run")["step"], 10);
}

TEST_F(TellsWhereTimeWent, APortableRunComputesWithTheSameInstructionsEverywhere) {
  const std::vector<std::string> portable = {"--set", "train.portable=true", "--steps", "10"};
  ASSERT_EQ(place_.tern(WorkFolder::train("here", portable)).exit_code, 0);
  // What else the environment asks for does not matter.
  ASSERT_EQ(tern_with(old_cpu_, WorkFolder::train("there", portable)).exit_code, 0);
  const json here = place_.ledger("here", "start").at(0);
  EXPECT_EQ(here["instruction_set"], "AVX2");
  EXPECT_EQ(here["portable"], true);
  EXPECT_EQ(place_.ledger("there", "start").at(0)["fingerprint"], here["fingerprint"]);
  EXPECT_EQ(place_.losses("there"), place_.losses("here"));
}

}  // namespace
}  // namespace tern
