#include "report/accuracy_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tern {
namespace {

using nlohmann::json;

constexpr char kHeader[] = "epoch\thours\ttop1\ttop5\tcost_usd\n";
constexpr int64_t kHourMs = 3'600'000;

json evaluation(int64_t ms, int64_t epoch, double top1, double top5) {
  return {{"ms", ms},           {"kind", "evaluation"}, {"epoch", epoch},
          {"step", epoch * 10}, {"top1", top1},         {"top5", top5}};
}

std::vector<AccuracyRow> accuracy_rows(const std::vector<json>& ledger) {
  AccuracyHistory history;
  for (const json& record : ledger) history.add(record);
  return history.rows();
}

TEST(AccuracyTable, HasPercentHoursAndCost) {
  EXPECT_EQ(
      accuracy_table({{.epoch = 1, .hours = 0.5, .top1 = 0.4691, .top5 = 0.726, .cost_usd = 1.5},
                      {.epoch = 2, .hours = 1, .top1 = 0.5, .top5 = 0.8}},
                     {}),
      std::string(kHeader) + "1\t0.500000\t46.910\t72.600\t1.5000\n" +
          "2\t1.000000\t50.000\t80.000\t\n");
  EXPECT_EQ(accuracy_table({}, {}), kHeader);
}

TEST(AccuracyTable, EndsWithTheFirstRowThatReachesAllOfTheTarget) {
  const std::vector<AccuracyRow> rows = {{.epoch = 1, .top1 = 0.8, .top5 = 0.9},
                                         {.epoch = 2, .top1 = 0.7, .top5 = 0.93},
                                         {.epoch = 3, .top1 = 0.8, .top5 = 0.93},
                                         {.epoch = 4, .top1 = 0.9, .top5 = 0.99}};
  const auto lines = [&](const AccuracyTarget& target) {
    const std::string text = accuracy_table(rows, target);
    return std::count(text.begin(), text.end(), '\n') - 1;
  };
  EXPECT_EQ(lines({}), 4);
  EXPECT_EQ(lines({.top5 = 0.93}), 2);
  EXPECT_EQ(lines({.top1 = 0.8, .top5 = 0.93}), 3);
  EXPECT_EQ(lines({.top1 = 0.95}), 4);
}

TEST(AccuracyTable, AnAccuracyThatIsNotToldReachesNothing) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(reaches({.top5 = 0.1}, {.top1 = 1, .top5 = none}));
  EXPECT_TRUE(reaches({.top1 = 0.1}, {.top1 = 1, .top5 = none}));
}

TEST(AccuracyRows, HoursAndDollarsAddUpOverProcessesAndNotOverTheTimeBetween) {
  const std::vector<json> ledger = {
      {{"ms", 0}, {"kind", "start"}, {"price_microusd_per_hour", 2'000'000}},
      evaluation(kHourMs, 1, 0.1, 0.2),
      // Its own clock says that it lived for two hours.
      {{"ms", 3 * kHourMs}, {"kind", "end"}, {"wall_seconds", 7200.0}},
      {{"ms", 100 * kHourMs}, {"kind", "resume"}, {"price_microusd_per_hour", 500'000}},
      // Killed: its last record is an hour after its first.
      {{"ms", 101 * kHourMs}, {"kind", "checkpoint"}, {"step", 15}},
      {{"ms", 200 * kHourMs}, {"kind", "resume"}, {"price_microusd_per_hour", 1'000'000}},
      evaluation(201 * kHourMs, 2, 0.3, 0.4)};
  const auto rows = accuracy_rows(ledger);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_DOUBLE_EQ(rows[0].hours, 1);
  EXPECT_DOUBLE_EQ(rows[0].cost_usd.value_or(-1), 2);
  EXPECT_EQ(rows[1].epoch, 2);
  EXPECT_DOUBLE_EQ(rows[1].hours, 4);
  EXPECT_DOUBLE_EQ(rows[1].cost_usd.value_or(-1), 4 + 0.5 + 1);
}

TEST(AccuracyRows, ARecordsOwnHoursCountAndAnUnknownPriceIsNoCost) {
  json told = evaluation(kHourMs, 1, 0.1, 0.2);
  told["hours"] = 0.25;
  json later = evaluation(3 * kHourMs, 2, 0.1, 0.2);
  const auto rows = accuracy_rows(
      {{{"ms", 0}, {"kind", "start"}},
       told,
       {{"ms", 2 * kHourMs}, {"kind", "resume"}, {"price_microusd_per_hour", 1'000'000}},
       later});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].hours, 0.25);
  EXPECT_EQ(rows[0].cost_usd, std::nullopt);
  EXPECT_EQ(rows[1].cost_usd, std::nullopt);
}

TEST(AccuracyRows, AnEvaluationMadeAgainCountsOnceAndOneThatWasUndoneNever) {
  const auto rows = accuracy_rows(
      {{{"ms", 0}, {"kind", "start"}},
       evaluation(kHourMs, 1, 0.1, 0.2),
       evaluation(2 * kHourMs, 1, 0.1, 0.2),
       evaluation(3 * kHourMs, 2, 0.9, 0.9),
       {{"ms", 4 * kHourMs}, {"kind", "diverged"}, {"done", "rolled_back"}, {"to_step", 15}},
       evaluation(5 * kHourMs, 2, 0.3, 0.4)});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_DOUBLE_EQ(rows[0].hours, 1);
  EXPECT_DOUBLE_EQ(rows[1].hours, 5);
  EXPECT_EQ(rows[1].top1, 0.3);
}

TEST(AccuracyRows, DamagedRecordsAreNoRows) {
  const auto rows = accuracy_rows({json::object(),
                                   {{"kind", "evaluation"}},
                                   {{"kind", "evaluation"}, {"top1", "high"}},
                                   {{"kind", 7}},
                                   {{"kind", "evaluation"}, {"top1", 0.5}, {"ms", -4}}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(std::isnan(rows[0].top5));
  EXPECT_EQ(rows[0].hours, 0);
}

}  // namespace
}  // namespace tern
