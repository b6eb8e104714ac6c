#include "report/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/recorded_run.h"

namespace tern {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ResourcesTest : public RecordedRunTest {
 protected:
  // A second of a step.
  const json us_ = {{"compute", 700'000}, {"fetch", 200'000}, {"other", 100'000}};
};

TEST_F(ResourcesTest, TheEndRecordTellsWhereTheTimeWent) {
  begin("start", 0, 0);
  train(0, 40, us_);
  end("done", 40, 50.0,
      {{"seconds", {{"start", 4.0}, {"fetch", 1.0}, {"compute", 44.0}, {"evaluation", 1.0}}}});
  const RunReport report = this->report();
  EXPECT_EQ(report.seconds[Span::start], 4);
  EXPECT_EQ(report.seconds[Span::compute], 44);  // not the steps' sum
  EXPECT_EQ(report.seconds[Span::other], 0);
  EXPECT_EQ(report.seconds.total(), 50);
  EXPECT_THAT(report.verdict, StartsWith("compute-bound: 88 %"));
  EXPECT_DOUBLE_EQ(report.compute_samples_per_second.value_or(0), 400 / 44.0);
  const std::string text = format_report(report);
  EXPECT_THAT(text, HasSubstr("; 9.1 samples/s by compute alone\n"));
  EXPECT_THAT(text, HasSubstr("  compute             44 s  88.0 %  ##################\n"));
}

TEST_F(ResourcesTest, AKilledProcessIsTheSumOfItsSteps) {
  begin("start", 0, 0);
  train(0, 1, {{"start", 3'000'000}, {"compute", 1'000'000}});
  train(1, 10, us_);
  checkpoint(10);
  const RunReport report = this->report();
  EXPECT_DOUBLE_EQ(report.seconds[Span::start], 3);
  EXPECT_DOUBLE_EQ(report.seconds[Span::compute], 1 + 9 * 0.7);
  EXPECT_DOUBLE_EQ(report.seconds[Span::fetch], 9 * 0.2);
  // From exec, which was before the ledger's first word.
  EXPECT_DOUBLE_EQ(report.wall_seconds, 13);
  EXPECT_EQ(report.cpu_user_seconds, std::nullopt);
}

TEST_F(ResourcesTest, AnEndRecordThatTellsNoSpansLeavesItToTheSteps) {
  begin("start", 0, 0);
  train(0, 10, us_);
  end("stopped", 10, 10.0, {{"seconds", {{"compute", "much"}}}});
  EXPECT_DOUBLE_EQ(report().seconds[Span::compute], 7);
}

TEST_F(ResourcesTest, OldRecordsGiveAReportThatSaysWhatIsNotTold) {
  begin("start", 0, 0);
  train(0, 40);
  end("done", 40, 50.0);
  const RunReport report = this->report();
  EXPECT_EQ(report.seconds.total(), 0);
  EXPECT_EQ(report.compute_samples_per_second, std::nullopt);
  EXPECT_THAT(report.verdict, StartsWith("too little to tell"));
  const std::string text = format_report(report);
  EXPECT_THAT(text, HasSubstr("  not told            50 s 100.0 %"));
  for (const char* label : {"machine", "cpu, memory", "gpu", "compute"}) {
    EXPECT_THAT(text, Not(HasSubstr(label)));
  }
}

TEST_F(ResourcesTest, ProcessesAddUpAndThoseThatTellNothingAreNotInTheRates) {
  begin("start", 0, 0);
  train(0, 10);  // of an older tern
  end("preempted", 10, 1000.0);
  begin("resume", 10, 0, {{"loader_threads", 3}});
  train(10, 20, us_);  // killed
  begin("resume", 15, 5, {{"loader_threads", 2}});
  train(15, 40, us_);
  end("done", 40, 100.0,
      {{"seconds", {{"fetch", 60.0}, {"compute", 40.0}}},
       {"cpu_user_seconds", 150.0},
       {"cpu_system_seconds", 30.0},
       {"peak_memory_bytes", 7'000}});
  const RunReport report = this->report();
  EXPECT_DOUBLE_EQ(report.seconds[Span::fetch], 2 + 60);
  EXPECT_DOUBLE_EQ(report.seconds[Span::compute], 7 + 40);
  EXPECT_DOUBLE_EQ(report.compute_samples_per_second.value_or(0), 350 / 47.0);
  EXPECT_EQ(report.cpu_user_seconds, 150);
  EXPECT_EQ(report.cpu_system_seconds, 30);
  EXPECT_DOUBLE_EQ(report.cores_busy.value_or(0), 1.8);
  EXPECT_EQ(report.peak_memory_bytes, 7'000);
  EXPECT_EQ(report.wall_seconds, 1110);
  EXPECT_THAT(report.verdict, StartsWith("too little to tell: the records say where 9.9 %"));
  EXPECT_THAT(format_report(report),
              HasSubstr("cpu, memory    user 2 min 30 s, system 30 s, 1.8 cores busy, peak memory "
                        "7.0 kB\n"));
}

TEST_F(ResourcesTest, TheVerdictKnowsTheLoaderAndTheDevice) {
  begin("start", 0, 0, {{"loader_threads", 2}, {"device", "cuda:0"}});
  train(0, 40);
  end("stopped", 40, 100.0, {{"seconds", {{"fetch", 60.0}, {"compute", 40.0}}}});
  EXPECT_THAT(report().verdict, HasSubstr("try loader.threads above 2"));
  begin("resume", 40, 0, {{"device", "cuda:0"}});
  end("stopped", 40, 900.0, {{"seconds", {{"other", 800.0}, {"compute", 100.0}}}});
  EXPECT_THAT(report().verdict, StartsWith("launch-bound: 80 %"));
}

TEST_F(ResourcesTest, AGpuIsTheNewestAndItsUseIsOfAllThatTold) {
  const auto gpu = [](const char* name) {
    return json{{"gpu", {{"name", name}, {"driver", "580"}}}};
  };
  const auto used = [](double compute_s, double joules, int64_t peak) {
    return json{
        {"gpu",
         {{"compute_seconds", compute_s}, {"energy_joules", joules}, {"peak_memory_bytes", peak}}}};
  };
  begin("start", 0, 0, gpu("old"));
  end("preempted", 10, 100.0, used(80, 20'000, 9'000'000'000));
  begin("resume", 10, 0, gpu("new"));
  end("preempted", 20, 300.0, used(120, 60'000, 3'000'000'000));
  begin("resume", 20, 0, gpu("NVIDIA H200"));
  train(20, 30);  // killed: its use is not known
  const RunReport report = this->report();
  ASSERT_TRUE(report.gpu.has_value());
  EXPECT_EQ(report.gpu->name, "NVIDIA H200");
  EXPECT_DOUBLE_EQ(report.gpu->activity.value_or(0), 0.5);
  EXPECT_DOUBLE_EQ(report.gpu->mean_power_watts.value_or(0), 200);
  EXPECT_EQ(report.gpu->energy_joules, 80'000);
  EXPECT_EQ(report.gpu->peak_memory_bytes, 9'000'000'000);
  EXPECT_THAT(format_report(report),
              HasSubstr("gpu            NVIDIA H200, in a step 50 % of the time, 200 W, "
                        "peak memory 9.0 GB, driver 580\n"));
}

TEST_F(ResourcesTest, AGpuWhoseUseNobodyToldIsStillNamed) {
  begin("start", 0, 0, {{"gpu", {{"name", "NVIDIA L4"}}}});
  EXPECT_THAT(format_report(report()), HasSubstr("gpu            NVIDIA L4\n"));
  EXPECT_TRUE(report_json(report()).at("gpu").at("activity").is_null());
}

TEST_F(ResourcesTest, TheMachineIsTheNewestProcesss) {
  begin("start", 0, 0, {{"machine", {{"cpu", "old"}, {"cores", 64}}}});
  begin("resume", 0, 0,
        {{"machine",
          {{"cpu", "AMD EPYC 9R14"},
           {"cores", 4},
           {"cpu_limit", 1.5},
           {"memory_bytes", 64'000'000'000},
           {"memory_limit_bytes", 24'000'000'000},
           {"kernel", "6.1.0"},
           {"container", "podman"},
           {"instance_type", "g5.xlarge"}}},
         {"libtorch", "2.11.0"},
         {"device", "cpu"}});
  EXPECT_THAT(format_report(report()),
              HasSubstr("machine        1.5 of 4 cores of AMD EPYC 9R14, 24.0 GB, kernel 6.1.0, in "
                        "podman, instance\n               g5.xlarge; LibTorch 2.11.0 on cpu\n"));
}

}  // namespace
}  // namespace tern
