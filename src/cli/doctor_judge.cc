// What is far below what it should be. The bounds are deliberately low: a machine that is a little
// slow is no news, and advice that is wrong is not read again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/doctor_findings.h"
#include "cli/find_libtorch.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr double kProductOfPeakMin = 0.4;  // a good product reaches 0.8 to 0.9
constexpr double kBfloat16GainMin = 1.2;   // of float32; less is not worth the lost digits
constexpr double kMemoryGbSMin = 5;        // one core of any machine of the last ten years
constexpr int64_t kMemoryBytesMin = int64_t{2} << 30;
constexpr double kFsyncMsMax = 20;  // local SSDs take 0.1 to 5 ms, spinning disks 10 to 20
constexpr double kDiskMbSMin = 50;
constexpr int64_t kDiskFreeMin = int64_t{2} << 30;
constexpr int kDriverMin = 580;  // the first that runs CUDA 13, which LibTorch brings
constexpr double kHotC = 88;     // most GPUs slow down from here on

// A GPU that cannot be used is not silently passed over.
constexpr std::string_view kUseTheCpu = "until then train on the CPU, with --set train.device=cpu";

using List = std::vector<Advice>;

bool has_feature(const Machine& machine, std::string_view name) {
  return std::ranges::find(machine.cpu_features, name) != machine.cpu_features.end();
}

// Cores' worth of time that this process may have.
double granted_cores(const Machine& machine) {
  const double cores = static_cast<double>(machine.cores);
  return machine.cpu_limit > 0 ? std::min(machine.cpu_limit, cores) : cores;
}

std::string percent(double part) { return fmt::format("{:.0f} %", 100 * part); }

void judge_cores(const Findings& findings, List& list) {
  const Machine& machine = findings.machine;
  const double cores = static_cast<double>(machine.cores);
  const double granted = granted_cores(machine);
  if (granted < cores) {
    list.push_back({fmt::format("the cgroup grants {:.2g} of {} cores: threads beyond that are "
                                "stopped in the middle of their work",
                                granted, machine.cores),
                    fmt::format("set train.threads = {}, or ask for more (docker: --cpus, "
                                "Kubernetes: limits.cpu)",
                                std::max<int64_t>(1, std::llround(std::floor(granted))))});
  }
  if (findings.peak.gflops > 0 && findings.peak.cpu_share < kCpuShareMin * granted / cores) {
    list.push_back({fmt::format("our threads had a core only {} of the time: other processes use "
                                "the CPU (load {:.1f} on {} cores)",
                                percent(findings.peak.cpu_share), findings.load, machine.cores),
                    "see which in `top`, end them or train with fewer threads (train.threads)"});
  }
  if (!machine.cpu_features.empty() && has_feature(machine, "sse2") &&
      !has_feature(machine, "avx2")) {
    list.push_back({"the CPU shows no AVX2, without which LibTorch is several times slower",
                    "if this is a virtual machine, give it its host's CPU model"});
  }
}

void judge_product(const Findings& findings, List& list) {
  if (!findings.cpu_speed || !findings.cpu_speed->has_value()) return;
  const TrainerSpeed& speed = **findings.cpu_speed;
  const double share = findings.peak.gflops > 0 ? speed.float32_gflops / findings.peak.gflops : 1;
  // Threads that did not get their cores have been spoken of, and explain this as well.
  if (share < kProductOfPeakMin && findings.peak.cpu_share >= kCpuShareMin) {
    const bool is_busy = findings.load > 0.25 * granted_cores(findings.machine);
    const std::string why =
        is_busy ? fmt::format(": other processes use the CPU (load {:.1f})", findings.load) : "";
    list.push_back(
        {fmt::format("the float32 product reaches {} of the peak{}", percent(share), why),
         is_busy ? "see which in `top`, and measure again when they are gone"
                 : "measure again; if it stays, unset OMP_*, MKL_* and KMP_* variables, "
                   "and see that LibTorch is the one that `make build` fetches"});
  }
  if (speed.kernels == "DEFAULT" && has_feature(findings.machine, "avx2")) {
    list.push_back({"LibTorch does not use this CPU's AVX2",
                    "unset ATEN_CPU_CAPABILITY, which tells it not to"});
  }
  if (speed.bfloat16_gflops && *speed.bfloat16_gflops < kBfloat16GainMin * speed.float32_gflops) {
    list.push_back({fmt::format("bfloat16 products are no faster than float32 ({:.3g} and {:.3g} "
                                "GFLOP/s), though the CPU has instructions for them",
                                *speed.bfloat16_gflops, speed.float32_gflops),
                    "train in float32 on this CPU"});
  }
}

void judge_memory(const Findings& findings, List& list) {
  const Machine& machine = findings.machine;
  int64_t bytes = machine.memory_bytes;
  if (machine.memory_limit_bytes > 0 && (bytes == 0 || machine.memory_limit_bytes < bytes)) {
    bytes = machine.memory_limit_bytes;
  }
  if (bytes > 0 && bytes < kMemoryBytesMin) {
    list.push_back({fmt::format("there is {:.1f} GiB of memory, of which LibTorch takes a part "
                                "before the first sample is read",
                                static_cast<double>(bytes) / (1 << 30)),
                    "use a machine (or a memory limit) of 2 GiB or more"});
  }
  if (findings.memory_gb_s > 0 && findings.memory_gb_s < kMemoryGbSMin) {
    list.push_back({fmt::format("memory moves {:.1f} GB/s", findings.memory_gb_s),
                    "look for swapping (`vmstat 1`) and for neighbours on this machine"});
  }
}

void judge_disk(const Findings& findings, List& list) {
  if (!findings.disk) return;
  if (!findings.disk->has_value()) {
    list.push_back({fmt::format("nothing can be written in the current folder: {}",
                                findings.disk->error().message),
                    "go to a folder of yours, or name one with --run", /*stops=*/true});
    return;
  }
  const DiskSpeed& disk = **findings.disk;
  if (disk.kind == "tmpfs") {
    list.push_back({"the current folder is in memory (tmpfs): its runs vanish with the machine",
                    "put runs that matter on a disk, with --run"});
  }
  if (disk.kind == "overlay" && !findings.machine.container.empty()) {
    list.push_back({"the current folder is the container's own: its runs vanish with the container",
                    "mount a volume and put the runs there, with --run"});
  }
  if (disk.fsync_ms > kFsyncMsMax) {
    list.push_back(
        {fmt::format("fsync takes {:.0f} ms, and each checkpoint waits for several", disk.fsync_ms),
         "put the runs on a local disk, or save less often (checkpoint.every)"});
  }
  const auto slow = [&](std::string_view verb, double mb_s, const char* to_do) {
    if (mb_s >= kDiskMbSMin) return;
    list.push_back({fmt::format("the disk {} {:.0f} MB/s", verb, mb_s), to_do});
  };
  slow("writes", disk.write_mb_s, "put the runs on a faster disk, or save less often");
  if (disk.read_mb_s) slow("reads", *disk.read_mb_s, "keep datasets on a faster disk");
  if (disk.free_bytes < kDiskFreeMin) {
    list.push_back(
        {fmt::format("{:.1f} GB of disk are free", static_cast<double>(disk.free_bytes) / 1e9),
         "remove old runs (`tern ls` shows their sizes), or name another place "
         "with --run"});
  }
}

int major_version(const std::string& version) {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

void judge_gpu(const Gpu& gpu, List& list) {
  if (gpu.capability_major > 0 && gpu.capability_major * 10 + gpu.capability_minor < 75) {
    list.push_back(
        {fmt::format("GPU {} ({}) has compute capability {}.{}; LibTorch {} needs 7.5", gpu.index,
                     gpu.name, gpu.capability_major, gpu.capability_minor, kLibTorchVersion),
         "train on the CPU, or on a Turing GPU (T4) or a newer one"});
  }
  if (!gpu.processes.empty()) {
    std::vector<std::string> names;
    for (const GpuProcess& process : gpu.processes) names.push_back(name_process(process.pid));
    list.push_back(
        {fmt::format("GPU {} is used by {} {}", gpu.index,
                     names.size() == 1 ? "process" : "processes", fmt::join(names, ", ")),
         "end what is not needed: it takes memory and time of the GPU"});
  }
  if (gpu.temperature_c >= kHotC) {
    list.push_back({fmt::format("GPU {} is at {:.0f} degrees and slows itself down", gpu.index,
                                gpu.temperature_c),
                    "see to its cooling"});
  }
}

void judge_gpus(const Findings& findings, List& list) {
  if (findings.gpus && !findings.gpus->has_value() &&
      findings.gpus->error().code != Code::not_found) {
    list.push_back({findings.gpus->error().message, std::string(kUseTheCpu)});
  }
  if (!findings.gpus || !findings.gpus->has_value() || findings.gpus->value().empty()) return;
  const bool is_old = major_version(findings.driver) < kDriverMin;
  if (is_old) {
    list.push_back({fmt::format("the GPU's driver is {}; LibTorch {} brings CUDA 13, which needs "
                                "{} or newer",
                                findings.driver, kLibTorchVersion, kDriverMin),
                    fmt::format("install a newer driver; {}", kUseTheCpu)});
  }
  for (const Gpu& gpu : findings.gpus->value()) judge_gpu(gpu, list);
  if (!findings.gpu_speed) return;
  if (!findings.gpu_speed->has_value()) {
    if (!is_old) {
      list.push_back({fmt::format("LibTorch does not compute on the GPU: {}",
                                  findings.gpu_speed->error().message),
                      std::string(kUseTheCpu)});
    }
    return;
  }
  if (findings.cpu_speed && findings.cpu_speed->has_value() &&
      findings.gpu_speed->value().float32_gflops < findings.cpu_speed->value().float32_gflops) {
    list.push_back({"the GPU computes more slowly than the CPU",
                    "see in `nvidia-smi` who else uses it and whether it is throttled"});
  }
}

// That a machine is busy does not mean that it cannot train.
bool took_too_long(const Result<TrainerSpeed>& speed) {
  return !speed.has_value() && speed.error().code == Code::deadline_exceeded;
}

}  // namespace

std::vector<Advice> judge(const Findings& findings) {
  List list;
  if (findings.libtorch && !findings.libtorch->has_value()) {
    // The message already says what to type.
    list.push_back({findings.libtorch->error().message, "", /*stops=*/true});
  } else if (findings.cpu_speed && !findings.cpu_speed->has_value()) {
    list.push_back(
        {findings.cpu_speed->error().message, "", /*stops=*/!took_too_long(*findings.cpu_speed)});
  }
  judge_cores(findings, list);
  judge_product(findings, list);
  judge_memory(findings, list);
  judge_gpus(findings, list);
  judge_disk(findings, list);
  std::ranges::stable_partition(list, [](const Advice& advice) { return advice.stops; });
  return list;
}

int doctor_exit_code(const Findings& findings) {
  if (findings.libtorch && !findings.libtorch->has_value()) {
    return exit_code_of(findings.libtorch->error().code);
  }
  if (findings.cpu_speed && !findings.cpu_speed->has_value() &&
      !took_too_long(*findings.cpu_speed)) {
    return exit_code_of(findings.cpu_speed->error().code);
  }
  if (findings.disk && !findings.disk->has_value()) {
    return exit_code_of(findings.disk->error().code);
  }
  return kExitDone;
}

}  // namespace tern
