// The findings in words, on lines of at most 80 columns, and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/doctor_findings.h"
#include "cli/find_libtorch.h"
#include "core/system_files.h"

namespace tern {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kIndent = 12;

// Breaks lines between words; a line's continuation begins at `indent`.
std::string wrap(const std::string& first, size_t indent, const std::string& text) {
  std::string wrapped = first;
  size_t column = first.size();
  bool is_begin = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!is_begin && column + 1 + word.size() > kColumns) {
      wrapped += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!is_begin) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
    is_begin = false;
  }
  return wrapped + '\n';
}

// "CPU         AMD EPYC ..."
std::string entry(std::string_view name, const std::string& text) {
  return wrap(fmt::format("{:<{}}", name, kIndent), kIndent, text);
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string speed(double gflops) {
  return gflops < 10000 ? fmt::format("{:.0f} GFLOP/s", gflops)
                        : fmt::format("{:.1f} TFLOP/s", gflops / 1000);
}

std::string place(const Machine& machine) {
  std::string text = machine.system.empty() ? "unknown" : machine.system;
  if (!machine.kernel.empty()) text += ", Linux " + machine.kernel;
  if (!machine.container.empty()) text += ", in a container (" + machine.container + ")";
  if (!machine.container_image.empty()) text += " of " + machine.container_image;
  if (!machine.cloud.empty()) text += ", on " + machine.cloud;
  if (!machine.instance_type.empty()) text += " " + machine.instance_type;
  return text;
}

// With the JSON's null for what is not known.
template <typename T>
nlohmann::json known(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json speed_json(const std::optional<Result<TrainerSpeed>>& found) {
  if (!found || !found->has_value()) return {};
  const TrainerSpeed& speed = **found;
  return {{"device", speed.device},
          {"libtorch", speed.libtorch},
          {"kernels", speed.kernels},
          {"float32_gflops", speed.float32_gflops},
          {"bfloat16_gflops", known(speed.bfloat16_gflops)}};
}

nlohmann::json gpus_json(const Findings& findings) {
  nlohmann::json gpus = nlohmann::json::array();
  if (!findings.gpus || !findings.gpus->has_value()) return gpus;
  for (const Gpu& gpu : findings.gpus->value()) {
    nlohmann::json processes = nlohmann::json::array();
    for (const GpuProcess& process : gpu.processes) {
      processes.push_back({{"pid", process.pid}, {"memory_bytes", process.memory_bytes}});
    }
    gpus.push_back(
        {{"index", gpu.index},
         {"name", gpu.name},
         {"capability", fmt::format("{}.{}", gpu.capability_major, gpu.capability_minor)},
         {"memory_bytes", gpu.memory_bytes},
         {"memory_used_bytes", gpu.memory_used_bytes},
         {"power_limit_watts", gpu.power_limit_watts},
         {"temperature_c", gpu.temperature_c},
         {"driver", findings.driver},
         {"cuda", findings.cuda},
         {"processes", processes}});
  }
  return gpus;
}

nlohmann::json disk_json(const Findings& findings) {
  if (!findings.disk || !findings.disk->has_value()) return {};
  const DiskSpeed& disk = **findings.disk;
  return {{"folder", disk.folder},         {"kind", disk.kind},
          {"free_bytes", disk.free_bytes}, {"write_mb_s", disk.write_mb_s},
          {"fsync_ms", disk.fsync_ms},     {"read_mb_s", known(disk.read_mb_s)}};
}

nlohmann::json machine_json(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cpu_features", machine.cpu_features},
          {"cores", machine.cores},
          {"cpu_limit", machine.cpu_limit},
          {"memory_bytes", machine.memory_bytes},
          {"memory_limit_bytes", machine.memory_limit_bytes},
          {"kernel", machine.kernel},
          {"system", machine.system},
          {"container", machine.container},
          {"container_image", machine.container_image},
          {"cloud", machine.cloud},
          {"instance_type", machine.instance_type}};
}

}  // namespace

std::string name_process(int64_t pid) {
  const std::string name = printable_line(read_system_file(fmt::format("/proc/{}/comm", pid)));
  return name.empty() ? std::to_string(pid) : fmt::format("{} ({})", pid, name);
}

std::string describe_machine(const Findings& findings) {
  const Machine& machine = findings.machine;
  std::string cores = fmt::format("{} may be used", machine.cores);
  if (machine.cpu_limit > 0) {
    cores += fmt::format("; the cgroup grants the time of {:.2g}", machine.cpu_limit);
  }
  cores += fmt::format("; load {:.1f}", findings.load);
  std::string memory = machine.memory_bytes > 0 ? gib(machine.memory_bytes) : "unknown";
  if (machine.memory_limit_bytes > 0) {
    memory += fmt::format("; the cgroup grants {}", gib(machine.memory_limit_bytes));
  }
  return entry("System", place(machine)) +
         entry("CPU", fmt::format("{}: {}", machine.cpu.empty() ? "unknown" : machine.cpu,
                                  fmt::join(machine.cpu_features, " "))) +
         entry("Cores", cores) + entry("Memory", memory);
}

std::string describe_libtorch(const Findings& findings) {
  if (!findings.libtorch) return "";
  if (!findings.libtorch->has_value()) return entry("LibTorch", "cannot be used, see below");
  return entry("LibTorch", fmt::format("{} in {}", kLibTorchVersion, **findings.libtorch));
}

std::string describe_gpus(const Findings& findings) {
  if (!findings.gpus) return "";
  if (!findings.gpus->has_value()) {
    const bool is_absent = findings.gpus->error().code == Code::not_found;
    return entry("GPU", is_absent ? "none: no NVIDIA driver" : "cannot be used, see below");
  }
  if (findings.gpus->value().empty()) return entry("GPU", "none, though there is a driver");
  std::string text;
  for (const Gpu& gpu : findings.gpus->value()) {
    text += entry("GPU", fmt::format("{}: {}, {}, {} in use, capability {}.{}", gpu.index, gpu.name,
                                     gib(gpu.memory_bytes), gib(gpu.memory_used_bytes),
                                     gpu.capability_major, gpu.capability_minor));
  }
  return text + entry("Driver", fmt::format("{}, runs up to CUDA {}", findings.driver,
                                            findings.cuda.empty() ? "?" : findings.cuda));
}

std::string describe_peak(const Findings& findings) {
  return entry("CPU peak", fmt::format("{}: float32 multiply-adds in registers ({}), {} threads",
                                       speed(findings.peak.gflops), findings.peak.instructions,
                                       findings.machine.cores));
}

std::string describe_memory_speed(const Findings& findings) {
  return entry("Memory", fmt::format("{:.1f} GB/s: a = b + s * c over more than the caches, {} "
                                     "threads",
                                     findings.memory_gb_s, findings.machine.cores));
}

std::string describe_disk(const Findings& findings) {
  if (!findings.disk) return "";
  if (!findings.disk->has_value()) return entry("Disk", "cannot be written to, see below");
  const DiskSpeed& disk = **findings.disk;
  return entry(
      "Disk",
      fmt::format("writes {:.0f} MB/s, {}, fsync {:.2g} ms ({}{}, {:.0f} GB free)", disk.write_mb_s,
                  disk.read_mb_s ? fmt::format("reads {:.0f} MB/s", *disk.read_mb_s)
                                 : "reads from memory only",
                  disk.fsync_ms, disk.folder, disk.kind.empty() ? "" : ", " + disk.kind,
                  static_cast<double>(disk.free_bytes) / 1e9));
}

std::string describe_cpu_speed(const Findings& findings) {
  if (!findings.cpu_speed) return "";
  if (!findings.cpu_speed->has_value()) return entry("CPU product", "not measured, see below");
  const TrainerSpeed& cpu = **findings.cpu_speed;
  std::string text = fmt::format("{} in float32", speed(cpu.float32_gflops));
  if (findings.peak.gflops > 0 && findings.peak.cpu_share >= kCpuShareMin) {
    text += fmt::format(", {:.0f} % of the peak", 100 * cpu.float32_gflops / findings.peak.gflops);
  }
  if (cpu.bfloat16_gflops) text += fmt::format("; {} in bfloat16", speed(*cpu.bfloat16_gflops));
  return entry("CPU product",
               fmt::format("{} (matrices, by LibTorch's {} kernels)", text, cpu.kernels));
}

std::string describe_gpu_speed(const Findings& findings) {
  if (!findings.gpu_speed) return "";
  if (!findings.gpu_speed->has_value()) return entry("GPU product", "not measured, see below");
  const TrainerSpeed& gpu = **findings.gpu_speed;
  std::string text = fmt::format("{} in float32", speed(gpu.float32_gflops));
  if (gpu.bfloat16_gflops) text += fmt::format("; {} in bfloat16", speed(*gpu.bfloat16_gflops));
  return entry("GPU product", fmt::format("{} ({})", text, gpu.device));
}

std::string describe_advice(const std::vector<Advice>& advice) {
  if (advice.empty()) return "\nNothing is far below what it should be.\n";
  std::string text = "\nWhat to look at:\n";
  for (const Advice& one : advice) {
    // The search for LibTorch lists the places it has looked at, a line each.
    const size_t line_end = one.what.find('\n');
    const std::string what = one.what.substr(0, line_end);
    text += wrap(one.stops ? "  !! " : "  - ", 4 + (one.stops ? 1 : 0),
                 one.to_do.empty() ? what : fmt::format("{}. To do: {}.", what, one.to_do));
    if (line_end != std::string::npos) text += one.what.substr(line_end + 1) + "\n";
  }
  return text;
}

nlohmann::json doctor_json(const Findings& findings) {
  nlohmann::json advice = nlohmann::json::array();
  for (const Advice& one : judge(findings)) {
    advice.push_back({{"what", one.what}, {"to_do", one.to_do}, {"stops", one.stops}});
  }
  const bool has_libtorch = findings.libtorch && findings.libtorch->has_value();
  return {{"machine", machine_json(findings.machine)},
          {"load", findings.load},
          {"libtorch", has_libtorch ? nlohmann::json({{"folder", **findings.libtorch},
                                                      {"version", kLibTorchVersion}})
                                    : nlohmann::json()},
          {"gpus", gpus_json(findings)},
          {"peak",
           {{"gflops", findings.peak.gflops},
            {"cpu_share", findings.peak.cpu_share},
            {"instructions", findings.peak.instructions}}},
          {"memory_gb_s", findings.memory_gb_s},
          {"cpu_product", speed_json(findings.cpu_speed)},
          {"gpu_product", speed_json(findings.gpu_speed)},
          {"disk", disk_json(findings)},
          {"advice", advice},
          {"exit_code", doctor_exit_code(findings)}};
}

}  // namespace tern
