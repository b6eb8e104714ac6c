// A damaged record makes a report poorer; it never stops it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/recorded_run.h"
#include "report/run_report.h"

namespace tern {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class DamagedRecordsTest : public RecordedRunTest {};

TEST_F(DamagedRecordsTest, ATornLastLineIsDropped) {
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

TEST_F(DamagedRecordsTest, GarbageLinesAreSkippedAndCountedAsAWarning) {
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

TEST_F(DamagedRecordsTest, FieldsOfWrongTypeOrSizeNeverStopAReport) {
  const std::vector<json> values = {nullptr,    true,          -1,     "text",
                                    1e300,      json::array(), -1e300, int64_t{-1} - INT64_MAX,
                                    UINT64_MAX, json::object()};
  const std::vector<std::string> names = {"ms",
                                          "at",
                                          "kind",
                                          "price_microusd_per_hour",
                                          "step",
                                          "steps_lost",
                                          "host",
                                          "pid",
                                          "token",
                                          "total_steps",
                                          "epochs",
                                          "samples_per_epoch",
                                          "batch",
                                          "status",
                                          "wall_seconds",
                                          "reason",
                                          "bytes",
                                          "what",
                                          "top1",
                                          "loss",
                                          "epoch",
                                          "source",
                                          "samples",
                                          "us",
                                          "lease",
                                          "machine",
                                          "device",
                                          "libtorch",
                                          "gpu",
                                          "fingerprint",
                                          "seconds",
                                          "cpu_user_seconds",
                                          "from",
                                          "process_begins",
                                          "cpu_system_seconds",
                                          "peak_memory_bytes",
                                          "loader_threads"};
  price_ = 1'000'000;
  for (const json& value : values) {
    for (const std::string& name : names) {
      std::string lines;
      for (const char* kind :
           {"start", "notice", "checkpoint", "warning", "bad_sample", "evaluation", "end"}) {
        json line = {{"kind", kind}, {"ms", 1}, {"status", "done"}, {"step", 4}, {"top1", 0.5}};
        line[name] = value;
        lines += line.dump() + "\n";
      }
      ASSERT_TRUE(run_.put(kLedgerObject, lines));
      json mark = {{"process_begins", 0}, {"lease", 1}, {"ms", 1}};
      mark[name] = value;
      ASSERT_TRUE(run_.put(
          kMetricsObject,
          mark.dump() + "\n" + json{{"step", 1}, {"lease", 1}, {name, value}}.dump() + "\n"));
      const RunReport report = this->report();
      EXPECT_FALSE(report_json(report).dump().empty()) << name << " = " << value;
      EXPECT_FALSE(format_report(report).empty()) << name << " = " << value;
    }
  }
}

TEST_F(DamagedRecordsTest, WrongFieldsInsideAnObjectNeverStopAReport) {
  const std::vector<json> values = {nullptr,
                                    true,
                                    -1,
                                    "text",
                                    1e300,
                                    json::array(),
                                    -1e300,
                                    int64_t{-1} - INT64_MAX,
                                    UINT64_MAX,
                                    json::object(),
                                    json::array({1, "a"})};
  const std::vector<std::string> names = {"compute",
                                          "start",
                                          "other",
                                          "cpu",
                                          "cpu_features",
                                          "cores",
                                          "cpu_limit",
                                          "memory_bytes",
                                          "memory_limit_bytes",
                                          "kernel",
                                          "container",
                                          "container_image",
                                          "instance_type",
                                          "name",
                                          "driver",
                                          "capability",
                                          "compute_seconds",
                                          "energy_joules",
                                          "dry_steps",
                                          "peak_memory_bytes",
                                          "run",
                                          "step"};
  for (const json& value : values) {
    for (const std::string& name : names) {
      std::string lines;
      for (const char* kind : {"start", "end"}) {
        json line = {{"kind", kind}, {"ms", 1}, {"step", 4}, {"device", "cuda:0"}};
        for (const char* object : {"seconds", "machine", "gpu", "from"})
          line[object] = {{name, value}};
        lines += line.dump() + "\n";
      }
      ASSERT_TRUE(run_.put(kLedgerObject, lines));
      const json step = {{"step", 1}, {"samples", 5}, {"ms", 2}, {"us", {{name, value}}}};
      ASSERT_TRUE(run_.put(kMetricsObject, step.dump() + "\n"));
      const RunReport report = this->report();
      EXPECT_GE(report.seconds.total(), 0) << name << " = " << value;
      EXPECT_LT(report.seconds.total(), 1e16) << name << " = " << value;
      EXPECT_FALSE(report_json(report).dump().empty()) << name << " = " << value;
      EXPECT_FALSE(format_report(report).empty()) << name << " = " << value;
    }
  }
}

TEST_F(DamagedRecordsTest, ALossThatIsNoNumberIsNull) {
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

TEST_F(DamagedRecordsTest, ALedgerOfGarbageAloneIsCorrupt) {
  ASSERT_TRUE(run_.put(kLedgerObject, "what\nis this\n"));
  const auto report = read_report(run_, "runs/demo");
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::corrupt);
}

TEST_F(DamagedRecordsTest, ADamagedNewestRecordOfTheSequenceIsNamedAndPassedOver) {
  begin("start", 0, 0);
  hold(me(), RecordKind::lease);
  ASSERT_TRUE(run_.create("checkpoints/" + record_object(2), "garbage"));
  const RunReport report = this->report();
  EXPECT_EQ(report.status, RunStatus::running);
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("record 2 is damaged")));
}

}  // namespace
}  // namespace tern
