#include "train/run_records.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
    int64_t skipped = 0;
    auto lines = read_json_records(run_, kMetricsObject, skipped);
    EXPECT_EQ(skipped, 0);
    return *lines;
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
  EXPECT_EQ(*last_recorded_step(run_), 50);
  // Killed; the next process begins at a checkpoint and dies sooner: only its own steps count.
  records_->process_begins(40);
  EXPECT_EQ(*last_recorded_step(run_), 40);
  records_->step({.step = 41});
  records_->step({.step = 42});
  EXPECT_EQ(*last_recorded_step(run_), 42);
}

TEST_F(RunRecordsTest, LinesOfAProcessThatWasReplacedDoNotCount) {
  records_->process_begins(0);
  for (int64_t step = 1; step <= 50; ++step) records_->step({.step = step});
  auto successor = RunRecords::open(run_, clock_, log_, {.lease = 9});
  (*successor)->process_begins(40);
  (*successor)->step({.step = 41});
  auto replaced = RunRecords::open(run_, clock_, log_, {.lease = 1});
  (*replaced)->step({.step = 51});
  EXPECT_EQ(*last_recorded_step(run_), 41);
}

TEST_F(RunRecordsTest, LogLinesAreCopiedIntoTheRunFolder) {
  ASSERT_TRUE(log_to_run_folder(run_, log_).has_value());
  log_.info("train", "starting");
  const auto lines = read_records(run_, "log.txt");
  ASSERT_TRUE(lines.has_value());
  ASSERT_EQ(lines->size(), 1u);
  EXPECT_NE((*lines)[0].find("train: starting"), std::string::npos);
}

}  // namespace
}  // namespace tern
