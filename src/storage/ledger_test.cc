#include "storage/ledger.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "storage/memory_store.h"

namespace tern {
namespace {

using nlohmann::json;

constexpr int64_t kUnknownPrice = -1;

std::vector<json> read_ledger(ObjectStore& run) {
  int64_t skipped = 0;
  auto records = read_json_records(run, kLedgerObject, skipped);
  EXPECT_TRUE(records.has_value());
  EXPECT_EQ(skipped, 0);
  return records.value_or({});
}

TEST(LedgerTest, RecordsCarryTimeKindPriceAndFields) {
  MemoryStore run;
  SimClock clock(1'700'000'000'123);
  auto ledger = Ledger::open(run, clock, /*price_microusd_per_hour=*/250'000);
  ASSERT_TRUE(ledger.has_value());
  ASSERT_TRUE((*ledger)->record("start", {{"step", 0}, {"recipe", "tiny"}}));
  clock.advance(std::chrono::seconds(2));
  ASSERT_TRUE((*ledger)->record("notice", {{"source", "SIGTERM"}}));

  const std::vector<json> records = read_ledger(run);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0], json({{"ms", 1'700'000'000'123},
                              {"at", "2023-11-14T22:13:20.123Z"},
                              {"kind", "start"},
                              {"price_microusd_per_hour", 250'000},
                              {"step", 0},
                              {"recipe", "tiny"}}));
  EXPECT_EQ(records[1].at("ms"), 1'700'000'002'123);
  EXPECT_EQ(records[1].at("source"), "SIGTERM");
}

TEST(LedgerTest, AnUnknownPriceIsNotWritten) {
  MemoryStore run;
  SimClock clock;
  auto ledger = Ledger::open(run, clock, kUnknownPrice);
  ASSERT_TRUE(ledger.has_value());
  ASSERT_TRUE((*ledger)->record("start", json::object()));
  const std::vector<json> records = read_ledger(run);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_FALSE(records[0].contains("price_microusd_per_hour"));
}

TEST(LedgerTest, FieldsCannotReplaceWhatTheLedgerSays) {
  MemoryStore run;
  SimClock clock;
  auto ledger = Ledger::open(run, clock, /*price_microusd_per_hour=*/7);
  ASSERT_TRUE(ledger.has_value());
  ASSERT_TRUE((*ledger)->record(
      "end", {{"kind", "start"}, {"ms", 1}, {"at", "x"}, {"price_microusd_per_hour", 8}}));
  const std::vector<json> records = read_ledger(run);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].at("kind"), "end");
  EXPECT_EQ(records[0].at("ms"), clock.unix_ms());
  EXPECT_EQ(records[0].at("at"), format_utc(clock.unix_ms()));
  EXPECT_EQ(records[0].at("price_microusd_per_hour"), 7);
}

TEST(LedgerTest, NewlinesAndBytesThatAreNoUtf8StayInOneReadableLine) {
  MemoryStore run;
  SimClock clock;
  auto ledger = Ledger::open(run, clock, kUnknownPrice);
  ASSERT_TRUE(ledger.has_value());
  ASSERT_TRUE((*ledger)->record("end", {{"reason", "two\nlines \xff\xfe"}}));
  const std::vector<json> records = read_ledger(run);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].at("reason"), "two\nlines \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(LedgerTest, ASecondProcessContinuesTheLedger) {
  MemoryStore run;
  SimClock clock;
  for (const char* kind : {"start", "resume"}) {
    auto ledger = Ledger::open(run, clock, kUnknownPrice);
    ASSERT_TRUE(ledger.has_value());
    ASSERT_TRUE((*ledger)->record(kind, json::object()));
  }
  const std::vector<json> records = read_ledger(run);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].at("kind"), "start");
  EXPECT_EQ(records[1].at("kind"), "resume");
}

TEST(LedgerTest, LinesThatAreNoJsonObjectAreSkippedAndCounted) {
  MemoryStore run;
  ASSERT_TRUE(run.put(kLedgerObject,
                      "{\"kind\":\"start\"}\nnot json\n[1,2]\n\"text\"\n{\"kind\":\n\xff\n"
                      "{\"kind\":\"end\"}\n"));
  int64_t skipped = 3;  // counts on
  auto records = read_json_records(run, kLedgerObject, skipped);
  ASSERT_TRUE(records.has_value());
  EXPECT_EQ(skipped, 3 + 5);
  ASSERT_EQ(records->size(), 2U);
  EXPECT_EQ((*records)[1].at("kind"), "end");
}

TEST(LedgerTest, ALineCutAtAnyByteLosesThatRecordOnly) {
  MemoryStore run;
  const std::string first = "{\"kind\":\"start\",\"ms\":1}\n";
  const std::string second = "{\"kind\":\"end\",\"ms\":2}\n";
  for (size_t kept = 0; kept < second.size(); ++kept) {
    ASSERT_TRUE(run.put(kLedgerObject, first + second.substr(0, kept)));
    int64_t skipped = 0;
    auto records = read_json_records(run, kLedgerObject, skipped);
    ASSERT_TRUE(records.has_value()) << "cut after " << kept;
    EXPECT_EQ(skipped, 0) << "cut after " << kept;
    ASSERT_EQ(records->size(), 1U) << "cut after " << kept;
    EXPECT_EQ((*records)[0].at("kind"), "start");
  }
}

TEST(LedgerTest, AnAbsentLedgerIsEmpty) {
  MemoryStore run;
  int64_t skipped = 0;
  auto records = read_json_records(run, kLedgerObject, skipped);
  ASSERT_TRUE(records.has_value());
  EXPECT_TRUE(records->empty());
  EXPECT_EQ(skipped, 0);
}

}  // namespace
}  // namespace tern
