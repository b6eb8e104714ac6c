// Everything a run writes about itself while it trains: ledger, metrics, samples, TensorBoard's
// files, log.txt. Only the holder of the run's lease writes.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "report/accuracy_table.h"
#include "report/event_file.h"
#include "report/sampler.h"
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
  SpanTimes spans;            // since the line before
  std::string communication;  // of several ranks: what it cost, as JSON (rank_book.h); or empty
};

// The newest of them, and back, without what they cost: for another rank, whose records lack them.
// A line that is none is left out.
nlohmann::json step_lines_json(const std::deque<StepLine>& lines, size_t count);
std::vector<StepLine> parse_step_lines(const nlohmann::json& lines);

struct Evaluation {
  double loss = 0;
  double top1 = 0;
  double top5 = 0;
  int64_t samples = 0;
  std::vector<int64_t> class_samples;
  std::vector<double> class_top1;  // of each class, where it was asked for
};

// Owned by the step loop, which alone calls it; the sampler's thread is inside. A record that
// cannot be written (a full disk) is warned of once and the run goes on: training is worth more
// than its diary.
class RunRecords {
 public:
  struct Process {
    int64_t price_microusd_per_hour = -1;  // -1: not known
    int64_t lease = 0;                     // of the process that writes: its mark on its lines
    AccuracyHistory accuracy;              // by the ledger so far
  };

  static Result<std::unique_ptr<RunRecords>> open(ObjectStore& run, Clock& clock, Log& log,
                                                  Process process);
  // Those of a rank that does not lead: nothing is written, but the last steps are remembered.
  static std::unique_ptr<RunRecords> silent(ObjectStore& run, Clock& clock, Log& log);
  bool is_silent() const { return ledger_ == nullptr; }
  // Those steps, oldest first: for a leader to come, if the one that is lost has not written them.
  const std::deque<StepLine>& remembered() const { return remembered_; }

  // One ledger record; kinds and fields are in docs/format_ledger.md. An evaluation is shown in
  // TensorBoard as well.
  void ledger(std::string_view kind, const nlohmann::json& fields);
  // A ledger record and a log line.
  void warning(const std::string& what, int64_t step);
  // The run's evaluations until now. Asks the store nothing: in a bucket each record is an object.
  std::vector<AccuracyRow> accuracy() const { return accuracy_.rows(); }

  // A mark in the metrics that a process begins here: lines before it are another's. TensorBoard's
  // file begins here too.
  void process_begins(int64_t step);
  // The run went back to `step` in this process: TensorBoard forgets what came after it.
  void rolled_back(int64_t step);
  // A line of the metrics; of steps that follow each other quickly not all are shown in
  // TensorBoard.
  void step(const StepLine& line);
  // The summary of an epoch; `test` is nullptr if there was no evaluation.
  void epoch(int64_t epoch, int64_t step, double train_loss, double train_top1,
             const Evaluation* test);

  // From here on the sampler looks at the machine every now and then, and at what `setup.gpu` says.
  // Its samples_before is found here. REQUIRES: process_begins() was called.
  void watch_system(Sampler::Setup setup);
  // Takes a last sample, and writes what waits: before a report is made of the records.
  void finish_watching();
  // What was written until now survives the machine: before a checkpoint is published.
  void sync();

 private:
  RunRecords(ObjectStore& run, Clock& clock, Log& log, Process process)
      : run_(run),
        clock_(clock),
        log_(log),
        lease_(process.lease),
        accuracy_(std::move(process.accuracy)) {}
  void warn_once(const Status& status);
  void show_step(const StepLine& line);
  void keep_sample(const SystemSample& sample);

  // What was done since the last point in TensorBoard.
  struct Unshown {
    int64_t steps = 0;
    int64_t samples = 0;
    SpanTimes spans;
    Nanoseconds since{0};
  };

  ObjectStore& run_;
  Clock& clock_;
  Log& log_;
  const int64_t lease_;
  std::unique_ptr<Ledger> ledger_;
  AccuracyHistory accuracy_;  // with the ledger's newest record
  std::unique_ptr<RecordLog> metrics_;
  std::deque<StepLine> remembered_;  // silent ones alone
  std::atomic<bool> warned_ = false;
  std::unique_ptr<EventFile> events_;  // from process_begins() on
  Unshown unshown_;
  int64_t points_ = 0;
  std::atomic<int64_t> last_step_ = 0;  // for the sampler's x
  std::unique_ptr<RecordLog> samples_;  // the sampler's thread's
  std::unique_ptr<Sampler> sampler_;    // last: it ends before what it uses
};

// {"compute":6120,"queue":3}: microseconds, without those that took none.
std::string spans_json(const SpanTimes& spans);

// How far the run's last process had come, by its own records; 0 if there was none.
Result<int64_t> last_recorded_step(ObjectStore& run);

inline constexpr char kLogObject[] = "log.txt";

// Copies every later log line to log.txt in the run folder. Does nothing for a run in a bucket,
// where a line must not wait for a network: main() keeps that log.
Status log_to_run_folder(ObjectStore& run, Log& log);

}  // namespace tern
