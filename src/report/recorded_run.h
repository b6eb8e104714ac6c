// For tests of reports: writes a run's records into memory as a trainer would.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "report/run_report.h"
#include "storage/ledger.h"
#include "storage/memory_store.h"
#include "storage/sequence.h"

namespace tern {

inline constexpr int64_t kBatch = 10;
inline constexpr int64_t kUnknownPrice = -1;

// A run's records as a trainer would leave them: 10 steps an epoch, a step a second.
class RecordedRunTest : public testing::Test {
 protected:
  void record(const std::string& kind, const nlohmann::json& fields) {
    auto ledger = Ledger::open(run_, clock_, price_);
    ASSERT_TRUE(ledger.has_value());
    ASSERT_TRUE((*ledger)->record(kind, fields));
  }

  void begin(const std::string& kind, int64_t step, int64_t steps_lost, nlohmann::json more = {}) {
    nlohmann::json fields = {
        {"step", step},           {"recipe", "tiny"}, {"command", "tern train tiny"},
        {"host", "tern-3"},       {"pid", 4711},      {"token", "t0"},
        {"total_steps", 40},      {"epochs", 4},      {"batch", kBatch},
        {"samples_per_epoch", 95}};
    if (kind == "resume") fields["steps_lost"] = steps_lost;
    if (more.is_object()) fields.update(more);
    record(kind, fields);
    mark(step);
  }

  // Where a process begins in the metrics; its steps carry its lease.
  void mark(int64_t step) {
    auto log = open_record_log(run_, kMetricsObject);
    ASSERT_TRUE(log.has_value());
    const nlohmann::json line = {
        {"process_begins", step}, {"lease", ++lease_}, {"ms", clock_.unix_ms()}};
    ASSERT_TRUE((*log)->append(line.dump()));
    ASSERT_TRUE((*log)->sync());
  }

  // Steps (from, to], a second each, which `us` splits.
  void train(int64_t from, int64_t to, const nlohmann::json& us = {}) {
    auto log = open_record_log(run_, kMetricsObject);
    ASSERT_TRUE(log.has_value());
    for (int64_t step = from + 1; step <= to; ++step) {
      clock_.advance(std::chrono::seconds(1));
      nlohmann::json line = {{"step", step},    {"epoch", (step - 1) / 10},
                             {"lr", 0.1},       {"loss", 1.0 / static_cast<double>(step)},
                             {"top1", 0.5},     {"samples", kBatch},
                             {"lease", lease_}, {"ms", clock_.unix_ms()}};
      if (us.is_object()) line["us"] = us;
      ASSERT_TRUE((*log)->append(line.dump()));
      ASSERT_TRUE((*log)->sync());
    }
    if (to % 10 != 0) return;
    ASSERT_TRUE((*log)->append(
        nlohmann::json{{"epoch_done", to / 10}, {"step", to}, {"train_loss", 9.0}}.dump()));
    ASSERT_TRUE((*log)->sync());
  }

  void checkpoint(int64_t step) {
    record("checkpoint", {{"number", step}, {"step", step}, {"bytes", 1'500'000}, {"best", false}});
  }

  void evaluate(int64_t epoch, double top1) {
    record(
        "evaluation",
        {{"epoch", epoch}, {"step", epoch * 10}, {"loss", 0.25}, {"top1", top1}, {"top5", 0.99}});
  }

  void end(const std::string& status, int64_t step, double wall_seconds, nlohmann::json more = {}) {
    nlohmann::json fields = {{"status", status},
                             {"step", step},
                             {"reason", "all epochs are trained"},
                             {"wall_seconds", wall_seconds},
                             {"steps_lost", 0}};
    if (more.is_object()) fields.update(more);
    record("end", fields);
  }

  // The sequence says who holds the run.
  void hold(const Holder& holder, RecordKind kind) {
    const SequenceRecord record = {.number = ++sequence_,
                                   .kind = kind,
                                   .holder = holder,
                                   .unix_ms = clock_.unix_ms(),
                                   .lease = 1};
    ASSERT_TRUE(run_.create("checkpoints/" + record_object(sequence_), format_record(record)));
  }

  Holder me() {
    auto holder = this_process();
    EXPECT_TRUE(holder.has_value());
    return *holder;
  }

  RunReport report() {
    auto report = read_report(run_, "runs/demo");
    EXPECT_TRUE(report.has_value()) << report.error().to_string();
    return report.value_or({});
  }

  MemoryStore run_;
  SimClock clock_;
  int64_t price_ = kUnknownPrice;
  int64_t sequence_ = 0;
  int64_t lease_ = 0;
};

}  // namespace tern
