// A report while its records are read. Part of read_report(); run_report.h is for others.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/resources.h"
#include "report/run_report.h"
#include "storage/holder.h"

namespace tern {

// One process of the run, as far as it is known.
struct ProcessDraft {
  ProcessLine line;
  ProcessResources used;
  int64_t start_ms = 0;
  int64_t last_ms = 0;               // last sign of life
  std::optional<RunStatus> end;      // of its end record; nothing: it has written none
  std::optional<double> end_wall_s;  // from the end record
  bool went_back = false;            // a loss diverged: its newest step is not its largest
  int64_t end_steps_lost = 0;        // from the end record: the final save failed
  std::string reason;                // from the end record
  std::string notice_source;         // "SIGTERM"
  std::optional<Holder> holder;      // of a program's run, which has no sequence to tell it
  std::optional<int64_t> price_microusd_per_hour;
};

// A step as the metrics have it.
struct StepLoss {
  int64_t step = 0;
  int64_t epoch = 0;  // that it belongs to: as many whole ones were done before
  std::optional<double> loss;
};

// A moment at which so many whole epochs were done, by a line that says so.
struct EpochMark {
  int64_t step = 0;
  int64_t epochs_done = 0;
};

// The report and what is needed to finish it.
struct RunDraft {
  RunReport report;
  std::vector<ProcessDraft> processes;
  std::vector<StepLoss> steps;  // in the order of the file; a repeated step is there twice
  std::vector<EpochMark> epochs;
  int64_t resume_step = 0;  // where the next process would begin, by the ledger
  int64_t samples_per_epoch = 0;
  int64_t batch = 0;
  int64_t skipped = 0;  // damaged lines
};

// Oldest first, the ledger before the metrics, whose lines are parsed one at a time: there is one
// for each step.
void add_ledger_record(RunDraft& draft, const nlohmann::json& record);
void add_metrics(RunDraft& draft, const std::vector<std::string>& lines);

}  // namespace tern
