// Time and cost to an accuracy: accuracy.tsv in the run folder. Format: docs/observe.md.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tern {

inline constexpr char kAccuracyObject[] = "accuracy.tsv";

struct AccuracyRow {
  int64_t epoch = 0;
  double hours = 0;
  double top1 = 0;  // 0 to 1
  double top5 = 0;  // 0 to 1; NaN: not told
  std::optional<double> cost_usd;
};

// What is to be reached; 0 asks for nothing.
struct AccuracyTarget {
  double top1 = 0;
  double top5 = 0;
};
// True if something is asked for and `row` has all of it.
bool reaches(const AccuracyTarget& target, const AccuracyRow& row);

// The run's evaluations by its ledger, record by record, so that nobody reads a long one twice. One
// that was made again after a kill counts once, as it was first, and one that a roll-back undid
// does not count. Hours are those that processes of the run lived until then: by a record's own
// `hours`, or else by its time and the ends of the processes before, where a killed one ends with
// its last record. The cost is at the price in force, nothing if one of the processes knew none.
class AccuracyHistory {
 public:
  // Any record of the ledger (read_json_records()), in its order; a damaged one adds nothing.
  void add(const nlohmann::json& record);
  // By step.
  std::vector<AccuracyRow> rows() const;

 private:
  static constexpr double kUnknown = -1;

  // The processes, as far as the ledger has been read.
  struct Lived {
    double seconds_before = 0;  // of the processes before this one
    double usd_before = 0;      // kUnknown once one of them knew no price
    int64_t start_ms = 0;
    int64_t last_ms = 0;
    double end_seconds = kUnknown;  // by the end record
    double usd_per_hour = kUnknown;

    double seconds_by_calendar() const;
    double usd_after(double seconds) const;
    void begin_process(int64_t ms);
  };

  std::map<int64_t, AccuracyRow> rows_;  // by step
  Lived lived_;
};

// A header and a line for each row, the last of them the first that reaches the target. A pure
// function.
std::string accuracy_table(const std::vector<AccuracyRow>& rows, const AccuracyTarget& target);

}  // namespace tern
