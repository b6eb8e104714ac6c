// Everything a run writes about itself while it trains: ledger, metrics, log.txt. Only the holder
// of the run's lease writes.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "report/spans.h"
#include "storage/ledger.h"
#include "storage/object_store.h"
#include "storage/record_log.h"

namespace tern {

struct StepLine {
  int64_t step = 0;  // steps done
  int64_t epoch = 0;
  double learning_rate = 0;
  double loss = 0;
  double top1 = 0;
  int64_t samples = 0;
  SpanTimes spans;  // since the line before
};

struct Evaluation {
  double loss = 0;
  double top1 = 0;
  double top5 = 0;
  int64_t samples = 0;
};

// Owned by the step loop. A record that cannot be written (a full disk) is warned of once and the
// run goes on: training is worth more than its diary.
class RunRecords {
 public:
  struct Process {
    int64_t price_microusd_per_hour = -1;  // -1: not known
    int64_t lease = 0;                     // of the process that writes: its mark on its lines
  };

  static Result<std::unique_ptr<RunRecords>> open(ObjectStore& run, Clock& clock, Log& log,
                                                  Process process);

  // One ledger record; kinds and fields are in docs/format_ledger.md.
  void ledger(std::string_view kind, const nlohmann::json& fields);
  // A ledger record and a log line.
  void warning(const std::string& what, int64_t step);

  // A mark in the metrics that a process begins here: lines before it are another's.
  void process_begins(int64_t step);
  void step(const StepLine& line);
  // The summary of an epoch; `test` is nullptr if there was no evaluation.
  void epoch(int64_t epoch, int64_t step, double train_loss, double train_top1,
             const Evaluation* test);

 private:
  RunRecords(Clock& clock, Log& log, int64_t lease) : clock_(clock), log_(log), lease_(lease) {}
  void warn_once(const Status& status);

  Clock& clock_;
  Log& log_;
  const int64_t lease_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<RecordLog> metrics_;
  bool warned_ = false;
};

// {"compute":6120,"queue":3}: microseconds, without those that took none.
std::string spans_json(const SpanTimes& spans);

// How far the run's last process had come, by its own records; 0 if there was none.
Result<int64_t> last_recorded_step(ObjectStore& run);

// Copies every later log line to log.txt in the run folder.
Status log_to_run_folder(ObjectStore& run, Log& log);

}  // namespace tern
