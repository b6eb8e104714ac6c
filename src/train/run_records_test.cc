#include "train/run_records.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "storage/disk_store.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

class RunRecordsTest : public testing::Test {
 protected:
  RunRecordsTest() : quiet_(std::tmpfile()), log_(clock_, Level::info, quiet_) {
    auto records = RunRecords::open(run_, clock_, log_, {.lease = 1});
    EXPECT_TRUE(records.has_value());
    records_ = std::move(*records);
  }
  ~RunRecordsTest() override { std::fclose(quiet_); }

  std::vector<nlohmann::json> metrics() {
    records_->sync();
    int64_t skipped = 0;
    auto lines = read_json_records(run_, kMetricsObject, skipped);
    EXPECT_EQ(skipped, 0);
    return *lines;
  }

  int64_t last_step() {
    records_->sync();
    return *last_recorded_step(run_);
  }

  MemoryStore run_;
  SimClock clock_;
  std::FILE* quiet_;
  Log log_;
  std::unique_ptr<RunRecords> records_;
};

TEST_F(RunRecordsTest, ALossComesBackToItsBits) {
  const float loss = 0.1f + 1e-8f;
  records_->step({.step = 1, .epoch = 0, .learning_rate = 1.0 / 3, .loss = loss, .samples = 4});
  const auto lines = metrics();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(static_cast<float>(lines[0]["loss"].get<double>()), loss);
  EXPECT_EQ(lines[0]["lr"].get<double>(), 1.0 / 3);
}

// A leader that was a step behind when the group broke writes the line that another rank has.
TEST_F(RunRecordsTest, TheNewestLinesGoToAnotherRankToTheBitAndNothingElseIsTakenForOne) {
  const auto silent = RunRecords::silent(run_, clock_, log_);
  for (int64_t step = 1; step <= 10; ++step) {
    silent->step({.step = step,
                  .epoch = 1,
                  .learning_rate = 1.0 / 3,
                  .loss = 0.1 * static_cast<double>(step),
                  .top1 = 0.5,
                  .samples = 24});
  }
  nlohmann::json told = nlohmann::json::parse(step_lines_json(silent->remembered(), 2).dump());
  told.insert(told.begin(), {nullptr, 3, nlohmann::json::array({1, 2}),
                             nlohmann::json::array({9, 1, 1.0, nullptr, 0.5, 24})});
  const std::vector<StepLine> heard = parse_step_lines(told);
  ASSERT_EQ(heard.size(), 2U);
  for (const StepLine& line : heard) records_->step(line);
  const auto lines = metrics();
  EXPECT_EQ(lines[0]["step"], 9);
  EXPECT_EQ(lines[1]["step"], 10);
  EXPECT_EQ(heard[1].loss, 0.1 * 10);
  EXPECT_EQ(lines[1]["lr"].get<double>(), 1.0 / 3);
  EXPECT_EQ(lines[1]["samples"], 24);
  EXPECT_TRUE(step_lines_json({}, 2).empty());
}

TEST_F(RunRecordsTest, AnEpochWithoutEvaluationHasNoTestFields) {
  const Evaluation test{.loss = 0.5, .top1 = 0.9, .top5 = 1, .samples = 10};
  records_->epoch(1, 10, 0.7, 0.8, nullptr);
  records_->epoch(2, 20, 0.6, 0.85, &test);
  const auto lines = metrics();
  EXPECT_FALSE(lines[0].contains("test_top1"));
  EXPECT_EQ(lines[1]["test_top1"], 0.9);
}

TEST_F(RunRecordsTest, TheLastProcessSaysHowFarTheRunHadCome) {
  EXPECT_EQ(*last_recorded_step(run_), 0);
  records_->process_begins(0);
  for (int64_t step = 1; step <= 50; ++step) records_->step({.step = step});
  EXPECT_EQ(last_step(), 50);
  // Killed; the next process begins at a checkpoint and dies sooner: only its own steps count.
  records_->process_begins(40);
  EXPECT_EQ(*last_recorded_step(run_), 40) << "a beginning is known at once";
  records_->step({.step = 41});
  records_->step({.step = 42});
  EXPECT_EQ(last_step(), 42);
}

TEST_F(RunRecordsTest, LinesOfAProcessThatWasReplacedDoNotCount) {
  records_->process_begins(0);
  for (int64_t step = 1; step <= 50; ++step) records_->step({.step = step});
  records_->sync();
  auto successor = RunRecords::open(run_, clock_, log_, {.lease = 9});
  (*successor)->process_begins(40);
  (*successor)->step({.step = 41});
  (*successor)->sync();
  auto replaced = RunRecords::open(run_, clock_, log_, {.lease = 1});
  (*replaced)->step({.step = 51});
  (*replaced)->sync();
  EXPECT_EQ(*last_recorded_step(run_), 41);
}

// How often a text stands in what was written for TensorBoard.
int64_t times_in_events(MemoryStore& run, const std::string& text) {
  int64_t times = 0;
  const auto parts = run.list("tensorboard/");
  for (const ObjectInfo& part : parts.value_or({})) {
    const Bytes bytes = run.get(part.name).value_or("");
    for (size_t i = bytes.find(text); i != Bytes::npos; i = bytes.find(text, i + 1)) ++times;
  }
  return times;
}

TEST_F(RunRecordsTest, QuickStepsAreNotAllShownInTensorBoard) {
  records_->process_begins(0);
  for (int64_t step = 1; step <= 1000; ++step) {
    clock_.advance(std::chrono::milliseconds(1));
    records_->step({.step = step, .samples = 4});
  }
  records_->finish_watching();
  EXPECT_EQ(metrics().size(), 1001U);
  EXPECT_EQ(times_in_events(run_, "train/loss"), 10);  // the first, and one every 100 ms
}

TEST_F(RunRecordsTest, SlowStepsAreAllShownWithTheirSpansAndSpeed) {
  records_->process_begins(0);
  SpanTimes spans;
  spans[Span::compute] = std::chrono::milliseconds(150);
  for (int64_t step = 1; step <= 5; ++step) {
    clock_.advance(std::chrono::milliseconds(200));
    records_->step({.step = step, .samples = 4, .spans = spans});
  }
  records_->ledger("evaluation", {{"step", 5}, {"loss", 0.5}, {"top1", 0.9}, {"top5", 1.0}});
  records_->finish_watching();
  for (const char* tag : {"train/loss", "train/top1", "throughput", "spans/compute"}) {
    EXPECT_EQ(times_in_events(run_, tag), 5) << tag;
  }
  EXPECT_EQ(times_in_events(run_, "spans/fetch"), 0);
  for (const char* tag : {"validation/loss", "validation/top1", "validation/top5"}) {
    EXPECT_EQ(times_in_events(run_, tag), 1) << tag;
  }
  const auto expected = scalars_record(clock_.unix_ms(), 5,
                                       {{"train/loss", 0},
                                        {"train/top1", 0},
                                        {"lr", 0},
                                        {"throughput", 20},
                                        {"spans/compute", 0.15}});
  EXPECT_EQ(times_in_events(run_, expected), 1);
}

TEST_F(RunRecordsTest, EachProcessHasItsOwnFileWhichBeginsWhereItResumes) {
  records_->process_begins(0);
  auto successor = RunRecords::open(run_, clock_, log_, {.lease = 12});
  (*successor)->process_begins(40);
  (*successor)->rolled_back(30);
  (*successor)->finish_watching();
  ASSERT_EQ(run_.list("tensorboard/")->size(), 2U);
  for (const int64_t step : {1, 41, 31}) {
    EXPECT_EQ(times_in_events(run_, restart_record(clock_.unix_ms(), step)), 1) << step;
  }
}

TEST_F(RunRecordsTest, TheAccuracyIsThatOfTheWholeRunAndAsksTheStoreNothing) {
  AccuracyHistory before;
  before.add({{"kind", "start"}, {"ms", 0}});
  before.add({{"kind", "evaluation"}, {"step", 5}, {"epoch", 1}, {"top1", 0.5}});
  FaultyStore counted(run_);
  auto records = RunRecords::open(counted, clock_, log_,
                                  {.price_microusd_per_hour = 1, .lease = 2, .accuracy = before});
  ASSERT_TRUE(records.has_value());
  (*records)->ledger("resume", {{"step", 5}});
  clock_.advance(std::chrono::hours(2));
  (*records)->ledger("evaluation", {{"step", 10}, {"epoch", 2}, {"top1", 0.75}});
  const int64_t requests = counted.requests();
  const std::vector<AccuracyRow> rows = (*records)->accuracy();
  EXPECT_EQ(counted.requests(), requests);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].top1, 0.5);
  EXPECT_EQ(rows[1].top1, 0.75);
  EXPECT_DOUBLE_EQ(rows[1].hours, 2);
}

TEST_F(RunRecordsTest, SamplesGoToTheirLogAndToTensorBoard) {
  SystemClock clock;  // the sampler's thread waits by it
  auto records = RunRecords::open(run_, clock, log_, {.lease = 7});
  ASSERT_TRUE(records.has_value());
  (*records)->process_begins(3);
  std::atomic<int> looks = 0;
  (*records)->watch_system({.period = std::chrono::milliseconds(60), .gpu = [&looks] {
                              ++looks;
                              looks.notify_all();
                              return std::vector<Scalar>{{"gpu/power_watts", 612}};
                            }});
  looks.wait(0);
  (*records)->finish_watching();
  int64_t skipped = 0;
  const auto samples = read_json_records(run_, kSamplesObject, skipped);
  ASSERT_TRUE(samples.has_value());
  ASSERT_GE(samples->size(), 1U);
  EXPECT_EQ(samples->front().at("values").at("gpu/power_watts"), 612.0);
  EXPECT_EQ(samples->front().at("step"), 3);
  EXPECT_EQ(samples->front().at("lease"), 7);
  EXPECT_EQ(times_in_events(run_, "system/gpu/power_watts"), static_cast<int64_t>(samples->size()));
}

TEST_F(RunRecordsTest, StepsInABucketAreOneObjectEveryHalfMinute) {
  records_->process_begins(0);
  for (int64_t step = 1; step <= 600; ++step) {
    clock_.advance(std::chrono::milliseconds(200));
    records_->step({.step = step});
  }
  EXPECT_LE(run_.list("metrics.jsonl.d/")->size(), 5U) << "the beginning, and four of 30 s";
  EXPECT_GE(run_.list("metrics.jsonl.d/")->size(), 4U);
}

TEST_F(RunRecordsTest, LogLinesAreCopiedIntoTheRunFolder) {
  std::string folder = testing::TempDir() + "run_records_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  RealFileDoor door;
  const auto run = DiskStore::open(folder, door).value();
  ASSERT_TRUE(log_to_run_folder(*run, log_).has_value());
  ASSERT_TRUE(log_to_run_folder(run_, log_).has_value());
  log_.info("train", "starting");
  EXPECT_TRUE(run_.list("log.txt")->empty()) << "a bucket's is another's (bucket_log.h)";
  const auto lines = read_records(*run, "log.txt");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(lines.has_value());
  ASSERT_EQ(lines->size(), 1u);
  EXPECT_NE((*lines)[0].find("train: starting"), std::string::npos);
}

}  // namespace
}  // namespace tern
