// What a run's records say: how it ended and why, accuracy, throughput, where the time went, what
// it cost, steps lost.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "report/rank_loads.h"
#include "report/spans.h"
#include "storage/object_store.h"

namespace tern {

enum class RunStatus { done, preempted, stopped, failed, running };
std::string_view status_name(RunStatus status);

// One evaluation on the test data.
struct EvaluationLine {
  int64_t epoch = 0;
  int64_t step = 0;
  double loss = 0;
  double top1 = 0;
  double top5 = 0;
};

// One process of the run, from its start or resume record to its end record (or to the last sign of
// life, if it was killed).
struct ProcessLine {
  std::string host;
  int64_t pid = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
  int64_t steps_lost = 0;  // steps done before that this process had to do again
  double wall_seconds = 0;
  std::string ended;  // "preempted: SIGTERM", "killed without a word", "still running"
};

// The GPU of the newest process that had one, and what all processes did with theirs. Nothing: no
// process told it.
struct GpuLine {
  std::string name;
  std::string driver;
  std::string cuda;
  std::string capability;
  int64_t memory_bytes = 0;
  std::optional<double> compute_seconds;   // by the GPU's own clock
  std::optional<double> activity;          // compute seconds by the wall time of those processes
  std::optional<int64_t> steps;            // that it was given
  std::optional<int64_t> dry_steps;        // before which it had nothing left to do
  std::optional<double> energy_joules;     // of the whole GPU, others' use included
  std::optional<double> mean_power_watts;  // that by the wall time of those processes
  std::optional<int64_t> peak_memory_bytes;
};

// Weights that the run was given, and how good they were before any training.
struct InitLine {
  std::string file;
  std::string sha256;
  int64_t tensors = 0;         // taken from it
  bool head_replaced = false;  // the last layer is new: the class counts differ
  std::optional<double> top1;
  std::optional<double> top5;
};

// A loss that was no number any more, or exploded.
struct DivergedLine {
  int64_t step = 0;
  std::optional<double> loss;  // nothing: it was no number
  std::string cause;
  std::string done;  // "stopped" or "rolled_back"
  int64_t to_step = 0;
  double rate_factor = 1;  // what the learning rate is multiplied by since
};

// When the accuracy that was asked for was reached.
struct TargetLine {
  int64_t epoch = 0;
  int64_t step = 0;
  double hours = 0;
  std::optional<double> cost_usd;
  std::optional<double> top1;
  std::optional<double> top5;
};

struct ClassLine {
  int64_t index = 0;
  std::string name;  // empty: the data has no names
  double top1 = 0;
};

// Over the samples of the run, each weighted by its seconds.
struct MeanAndMax {
  double mean = 0;
  double max = 0;
};

// What the samples say was used (docs/observe.md has the names).
struct UseLine {
  int64_t samples = 0;
  std::map<std::string, MeanAndMax> values;
  std::optional<double> power_share;  // mean power by its limit, where a GPU tells both
};

// A run of several ranks.
struct RanksLine {
  int64_t world = 0;                      // of the newest generation
  int64_t generations = 0;                // times that a group formed
  int64_t lost = 0;                       // ranks that were lost
  double longest_gap_s = 0;               // without a step, when ranks were lost or came
  std::optional<int64_t> bytes_per_step;  // that each rank sends, by the algorithm
  std::optional<int64_t> sent_per_step;   // that each sends and receives, by the kernel's count
  std::optional<int64_t> received_per_step;
  std::string slowest;             // the rank that the others waited for, or empty
  double slowest_seconds = 0;      // for how long, over the run
  double slowest_ratio = 1;        // its time for a step by the others'
  GroupTime group;                 // of all leaders' books
  std::vector<RankLoad> members;   // likewise; a rank is there once for each leader
  std::optional<Scaling> scaling;  // nothing: no leader has told
};

// A sample that could not be read or decoded.
struct BadSampleLine {
  std::string sample;  // its name, file and offset
  std::string cause;
  std::string done;  // "skipped" or "replaced"

  bool operator==(const BadSampleLine&) const = default;
};

struct RunReport {
  std::string run;  // as the caller calls it: "runs/demo"
  RunStatus status = RunStatus::running;
  std::string reason;     // why it ended as it did, a sentence
  std::string next_step;  // what to type now, or empty
  std::string recipe;
  bool is_program = false;  // any program: no steps, no accuracy, only what happened to it
  std::string command;
  std::string branched_from;  // "runs/a@120", or empty
  int64_t step = 0;
  int64_t total_steps = 0;
  int64_t epochs_done = 0;           // by the records, whatever the batches were
  int64_t epochs = 0;                // that the recipe asks for
  std::optional<double> train_loss;  // of the last step
  std::optional<EvaluationLine> last_evaluation;
  std::optional<EvaluationLine> best_evaluation;
  std::vector<double> class_top1;  // of each class, by the newest evaluation that tells it
  std::vector<std::string> class_names;
  std::optional<InitLine> init;  // nothing: the run began with random weights
  std::vector<DivergedLine> diverged;
  std::optional<TargetLine> target;
  int64_t steps_lost = 0;
  int64_t interruptions = 0;  // processes that ended before the run did
  double wall_seconds = 0;    // sum over the processes; waiting between them is not in it
  int64_t samples = 0;        // trained on, repeated steps included
  double samples_per_second = 0;
  std::optional<double> compute_samples_per_second;  // as if only compute took time
  SpanSeconds seconds;  // where the wall time went, as far as the records tell
  std::optional<double> cpu_user_seconds;
  std::optional<double> cpu_system_seconds;
  std::optional<double> cores_busy;  // CPU seconds by the wall time of the processes that told them
  std::optional<int64_t> peak_memory_bytes;
  std::optional<GpuLine> gpu;
  std::optional<UseLine> use;            // nothing: no sample was taken
  std::optional<RanksLine> ranks;        // nothing: one process trained alone
  std::optional<Machine> machine;        // of the newest process, as are the next three
  std::string device;                    // "cpu", "cuda:0", or empty
  std::string libtorch;                  // "2.11.0", or empty
  std::string fingerprint;               // 16 hex digits, or empty
  std::string verdict;                   // what bounds the run, and what removing it would gain
  std::optional<int64_t> cost_microusd;  // nothing unless every process knew its price
  int64_t checkpoints = 0;
  int64_t checkpoint_bytes = 0;            // of the newest
  std::vector<BadSampleLine> bad_samples;  // each once, in the order in which they were met
  std::string shuffle;                     // of the newest process: "full", "window:8"
  std::optional<double> shuffle_quality;   // 1: mixed as well as a full shuffle
  std::vector<std::string> warnings;
  std::vector<ProcessLine> processes;
};

struct ReportOptions {
  // Instead of the price that each process recorded.
  std::optional<int64_t> price_microusd_per_hour = std::nullopt;
};

// The least accurate classes, worst first.
std::vector<ClassLine> worst_classes(const RunReport& report, size_t count);
// Samples per second by what compute alone would do: how much of the time was useful work.
std::optional<double> useful_share(const RunReport& report);

// Reads ledger, metrics, samples and the sequence of a run folder. not_found, with what to try, if
// there is no run in it; corrupt if none of its ledger can be read. A run without an end record is
// `running` while its holder may be alive, else `failed`. Damaged lines are skipped and become a
// warning.
Result<RunReport> read_report(ObjectStore& run, const std::string& run_name,
                              const ReportOptions& options = {});

// A screen of text for people: at most 40 lines of 100 columns, whatever the report holds.
std::string format_report(const RunReport& report);
// report.json; the fields are in docs/format_report.md. Holds only valid UTF-8 and finite numbers,
// so that dump() of it throws nothing.
nlohmann::json report_json(const RunReport& report);

}  // namespace tern
