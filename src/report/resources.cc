#include "report/resources.h"

#include <algorithm>
#include <cmath>

#include "report/machine_json.h"
#include "report/record_fields.h"

namespace tern {

namespace {

using nlohmann::json;

constexpr double kMicrosecond = 1e-6;
constexpr double kSecond = 1.0;

// Nothing if no span of the object is an amount of time.
std::optional<SpanSeconds> read_spans(const json& record, const char* name, double unit_seconds) {
  const json* object = find_object(record, name);
  if (object == nullptr) return std::nullopt;
  SpanSeconds seconds;
  bool is_told = false;
  for (const Span span : kAllSpans) {
    const std::optional<double> amount = find_amount(*object, span_name(span).data());
    if (!amount) continue;
    seconds[span] = *amount * unit_seconds;
    is_told = true;
  }
  return is_told ? std::optional(seconds) : std::nullopt;
}

// A sum over the processes that tell an amount, and how long those lived.
struct Told {
  double amount = 0;
  double wall_seconds = 0;
  bool is_told = false;

  void add(const std::optional<double>& more, double wall) {
    if (!more) return;
    amount += *more;
    wall_seconds += wall;
    is_told = true;
  }
  std::optional<double> sum() const { return is_told ? std::optional(amount) : std::nullopt; }
  // Below the records' own millisecond a rate would only be noise.
  std::optional<double> rate() const {
    return wall_seconds >= 0.001 ? std::optional(amount / wall_seconds) : std::nullopt;
  }
};

std::optional<double> cpu_seconds(const ProcessResources& process) {
  if (!process.cpu_user_seconds || !process.cpu_system_seconds) return std::nullopt;
  return *process.cpu_user_seconds + *process.cpu_system_seconds;
}

std::optional<GpuLine> sum_gpus(const std::vector<ProcessResources>& processes) {
  std::optional<GpuLine> gpu;
  std::optional<int64_t> peak;
  std::optional<int64_t> steps;
  std::optional<int64_t> dry_steps;
  Told compute;
  Told energy;
  for (const ProcessResources& process : processes) {
    if (!process.gpu) continue;
    gpu = process.gpu;
    peak = std::max(peak, process.gpu->peak_memory_bytes);
    if (process.gpu->steps && process.gpu->dry_steps) {
      steps = steps.value_or(0) + *process.gpu->steps;
      dry_steps = dry_steps.value_or(0) + *process.gpu->dry_steps;
    }
    compute.add(process.gpu->compute_seconds, process.wall_seconds);
    energy.add(process.gpu->energy_joules, process.wall_seconds);
  }
  if (!gpu) return std::nullopt;
  gpu->peak_memory_bytes = peak;
  gpu->steps = steps;
  gpu->dry_steps = dry_steps;
  gpu->compute_seconds = compute.sum();
  gpu->activity = compute.rate();
  gpu->energy_joules = energy.sum();
  gpu->mean_power_watts = energy.rate();
  return gpu;
}

}  // namespace

void read_start(ProcessResources& process, const json& record) {
  if (const json* machine = find_object(record, "machine")) {
    process.machine = parse_machine(*machine);
  }
  process.device = text_or(record, "device", "");
  process.libtorch = text_or(record, "libtorch", "");
  process.fingerprint = text_or(record, "fingerprint", "");
  process.loader_threads = count_or(record, "loader_threads", -1);
  if (const json* gpu = find_object(record, "gpu")) {
    process.gpu = GpuLine{.name = text_or(*gpu, "name", ""),
                          .driver = text_or(*gpu, "driver", ""),
                          .cuda = text_or(*gpu, "cuda", ""),
                          .capability = text_or(*gpu, "capability", ""),
                          .memory_bytes = count_or(*gpu, "memory_bytes", 0)};
  }
}

void read_step(ProcessResources& process, const json& record) {
  process.samples += count_or(record, "samples", 0);
  const std::optional<SpanSeconds> since_last = read_spans(record, "us", kMicrosecond);
  if (!since_last) return;
  if (!process.step_seconds) process.step_seconds.emplace();
  *process.step_seconds += *since_last;
}

namespace {

GroupTime read_group(const json& ranks) {
  GroupTime group;
  const json* object = find_object(ranks, "group");
  if (object == nullptr) return group;
  const auto amount = [&](const char* name) { return find_amount(*object, name).value_or(0); };
  group = {.steps = count_or(*object, "steps", 0),
           .step_seconds = amount("step_seconds"),
           .wait_seconds = amount("wait_seconds"),
           .data_seconds = amount("data_seconds"),
           .communication_seconds = amount("communication_seconds"),
           .leader_wait_seconds = amount("leader_wait_seconds"),
           .samples_each = amount("samples_each"),
           .alone_samples = amount("alone_samples"),
           .alone_seconds = amount("alone_seconds")};
  return group;
}

void read_ranks(ProcessResources& process, const json& record) {
  const json* ranks = find_object(record, "ranks");
  if (ranks == nullptr) return;
  process.bytes_per_step = find_count(*ranks, "bytes_per_step");
  process.group = read_group(*ranks);
  const auto members = ranks->find("members");
  if (members == ranks->end() || !members->is_array()) return;
  for (const json& member : *members) {
    if (!member.is_object()) continue;
    const auto amount = [&](const char* name) { return find_amount(member, name).value_or(0); };
    process.ranks.push_back({.name = text_or(member, "name", "a rank"),
                             .steps = count_or(member, "steps", 0),
                             .busy_seconds = amount("busy_seconds"),
                             .wait_seconds = amount("wait_seconds"),
                             .data_seconds = amount("data_seconds"),
                             .predicted_bytes = amount("predicted_bytes"),
                             .sent_bytes = amount("sent_bytes"),
                             .received_bytes = amount("received_bytes"),
                             .measured_steps = count_or(member, "measured_steps", 0)});
  }
}

// What all leaders' books say together.
void add_ranks(RanksLine& line, const std::vector<ProcessResources>& processes) {
  GroupTime group;
  RankLoad all;
  std::vector<RankLoad> loads;
  for (const ProcessResources& process : processes) {
    if (process.bytes_per_step) line.bytes_per_step = process.bytes_per_step;
    group += process.group;
    for (const RankLoad& load : process.ranks) all += load;
    loads.insert(loads.end(), process.ranks.begin(), process.ranks.end());
    // Of each leader's time by itself: loads of different ones are not of the same steps.
    const std::optional<SlowestRank> slowest = find_slowest(process.ranks);
    if (!slowest || slowest->seconds <= line.slowest_seconds) continue;
    line.slowest = slowest->name;
    line.slowest_seconds = slowest->seconds;
    line.slowest_ratio = slowest->ratio;
  }
  if (all.measured_steps > 0) {
    const auto steps = static_cast<double>(all.measured_steps);
    line.sent_per_step = std::llround(all.sent_bytes / steps);
    line.received_per_step = std::llround(all.received_bytes / steps);
  }
  line.scaling = scaling_of(group, loads);
  line.group = group;
  line.members = std::move(loads);
}

}  // namespace

void read_end(ProcessResources& process, const json& record) {
  read_ranks(process, record);
  process.end_seconds = read_spans(record, "seconds", kSecond);
  process.cpu_user_seconds = find_amount(record, "cpu_user_seconds");
  process.cpu_system_seconds = find_amount(record, "cpu_system_seconds");
  process.peak_memory_bytes = find_count(record, "peak_memory_bytes");
  const json* gpu = find_object(record, "gpu");
  if (gpu == nullptr) return;
  if (!process.gpu) process.gpu.emplace();
  process.gpu->name = text_or(*gpu, "name", process.gpu->name.c_str());
  process.gpu->compute_seconds = find_amount(*gpu, "compute_seconds");
  process.gpu->steps = find_count(*gpu, "steps");
  process.gpu->dry_steps = find_count(*gpu, "dry_steps");
  process.gpu->energy_joules = find_amount(*gpu, "energy_joules");
  process.gpu->peak_memory_bytes = find_count(*gpu, "peak_memory_bytes");
}

void add_resources(RunReport& report, const std::vector<ProcessResources>& processes) {
  Told user;
  Told system;
  Told cpu;
  double samples = 0;  // of the processes that tell how long they computed
  for (const ProcessResources& process : processes) {
    if (const std::optional<SpanSeconds> seconds = process.seconds()) {
      report.seconds += *seconds;
      samples += static_cast<double>(process.samples);
    }
    user.add(process.cpu_user_seconds, process.wall_seconds);
    system.add(process.cpu_system_seconds, process.wall_seconds);
    cpu.add(cpu_seconds(process), process.wall_seconds);
    report.peak_memory_bytes = std::max(report.peak_memory_bytes, process.peak_memory_bytes);
  }
  if (report.ranks) add_ranks(*report.ranks, processes);
  report.cpu_user_seconds = user.sum();
  report.cpu_system_seconds = system.sum();
  report.cores_busy = cpu.rate();
  report.gpu = sum_gpus(processes);
  const double compute = report.seconds[Span::compute];
  if (samples > 0 && compute >= 0.001) report.compute_samples_per_second = samples / compute;

  if (processes.empty()) return;
  const ProcessResources& newest = processes.back();
  report.machine = newest.machine;
  report.device = newest.device;
  report.libtorch = newest.libtorch;
  report.fingerprint = newest.fingerprint;
}

}  // namespace tern
