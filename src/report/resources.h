// What a run used: the seconds of its spans, CPU time, memory, the GPU. Part of read_report().
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/rank_loads.h"
#include "report/run_report.h"

namespace tern {

// What one process used, as far as its records tell. They are read without trust: a field that is
// no amount is as if it were missing.
struct ProcessResources {
  std::optional<SpanSeconds> end_seconds;   // by the end record
  std::optional<SpanSeconds> step_seconds;  // by the steps
  std::optional<double> cpu_user_seconds;
  std::optional<double> cpu_system_seconds;
  std::optional<int64_t> peak_memory_bytes;
  std::optional<GpuLine> gpu;   // its rates are left empty here
  std::vector<RankLoad> ranks;  // by the end record of a leader
  GroupTime group;              // likewise
  std::optional<int64_t> bytes_per_step;
  std::optional<Machine> machine;
  std::string device;
  std::string libtorch;
  std::string fingerprint;
  int64_t loader_threads = -1;  // -1: not told
  int64_t samples = 0;          // of its steps
  double wall_seconds = 0;      // known once the process is settled

  // The end record has all of it. A killed process has its steps, up to the last; a process of an
  // older tern nothing.
  std::optional<SpanSeconds> seconds() const { return end_seconds ? end_seconds : step_seconds; }
};

// From a start or resume record of the ledger, a step of the metrics, an end record.
void read_start(ProcessResources& process, const nlohmann::json& record);
void read_step(ProcessResources& process, const nlohmann::json& record);
void read_end(ProcessResources& process, const nlohmann::json& record);

// Sums, rates and the newest process's machine, into the report; `processes` is oldest first. A
// rate is over the processes that told the amount.
void add_resources(RunReport& report, const std::vector<ProcessResources>& processes);

}  // namespace tern
