// The ledger: the run's append-only record of what happened, a JSON object a line.
// Format and the fields of each kind: docs/format_ledger.md. Read by src/report.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "storage/object_store.h"
#include "storage/record_log.h"

namespace tern {

inline constexpr char kLedgerObject[] = "ledger.jsonl";
inline constexpr char kMetricsObject[] = "metrics.jsonl";

// Kinds of record. Text in the file; never rename.
//   start       first process of a run      resume      any later one, with steps_lost
//   notice      a warning or a wish came     checkpoint  one was published
//   warning     something failed that the run survives (a save, a damaged checkpoint)
//   evaluation  accuracy on the test data    end         how this process ended, and why
// Written by the holder of the run's lease only. Not thread-safe.
class Ledger {
 public:
  // `price_microusd_per_hour` < 0: not known. It is written into every record, so that a report
  // never has to guess which price was in force.
  static Result<std::unique_ptr<Ledger>> open(ObjectStore& run, Clock& clock,
                                              int64_t price_microusd_per_hour);

  // Adds {"ms": unix milliseconds, "at": the same for people, "kind": kind, ...fields}, durable
  // against the death of the machine when it returns. REQUIRES: fields is an object.
  Status record(std::string_view kind, const nlohmann::json& fields);
  // The last of them as a reader will find it, whether or not it could be written: who follows the
  // ledger need not read it. Null before the first.
  const nlohmann::json& newest() const { return newest_; }

 private:
  Ledger(std::unique_ptr<RecordLog> log, Clock& clock, int64_t price_microusd_per_hour)
      : log_(std::move(log)), clock_(clock), price_microusd_per_hour_(price_microusd_per_hour) {}

  std::unique_ptr<RecordLog> log_;
  Clock& clock_;
  const int64_t price_microusd_per_hour_;
  nlohmann::json newest_;
};

// Every whole line of a records object that is a JSON object. A line that is none is damage and is
// skipped; how many were is added to `skipped`.
Result<std::vector<nlohmann::json>> read_json_records(ObjectStore& run, const std::string& name,
                                                      int64_t& skipped);

// One such line, or nothing if it is damaged. For long logs, of which not all are wanted at once:
// parsed, a line takes ten times its bytes.
std::optional<nlohmann::json> parse_json_record(const std::string& line);

}  // namespace tern
