// What `tern doctor` finds out about a machine, and what it makes of it. The findings are plain
// values, so that every judgment is a function of them and is tested on planted ones.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "cuda/gpu.h"

namespace tern {

// A loop of multiply-adds that never leaves the registers, on all cores at once: what the cores can
// do at most, here and now.
struct CpuPeak {
  double gflops = 0;
  double cpu_share = 1;      // of the time that the threads ran, the part they had a core
  std::string instructions;  // "avx512f", "avx2", "sse2", "plain"
};

// Of what the machine grants. With less the peak is that of a part of the cores, and is no measure
// for anything.
inline constexpr double kCpuShareMin = 0.85;

// What tern-train measured with LibTorch on one device (train/speed_probe.h).
struct TrainerSpeed {
  std::string device;  // "cpu", "cuda:0"
  std::string libtorch;
  std::string kernels;  // which of its CPU kernels LibTorch chose: "AVX512", "AVX2", "DEFAULT"
  double float32_gflops = 0;
  std::optional<double> bfloat16_gflops;  // where the device has such arithmetic
};

struct DiskSpeed {
  std::string folder;
  std::string kind;  // of file system: "ext4", "nfs", "tmpfs", "overlay"; empty: another
  int64_t free_bytes = 0;
  int64_t bytes = 0;  // written and read back
  double write_mb_s = 0;
  std::optional<double> read_mb_s;  // nothing where only the page cache could be measured
  double fsync_ms = 0;              // the median of small ones
};

struct Findings {
  Machine machine;
  double load = 0;  // processes that wanted to run during the last minute, before we began

  // Each is nothing until it is known; an error says why it cannot be.
  std::optional<Result<std::string>> libtorch;  // the folder it is in
  std::string driver;                           // "580.159.04"; empty without one
  std::string cuda;                             // "13.0"
  std::optional<Result<std::vector<Gpu>>> gpus;
  CpuPeak peak;
  double memory_gb_s = 0;
  std::optional<Result<TrainerSpeed>> cpu_speed;
  std::optional<Result<TrainerSpeed>> gpu_speed;
  std::optional<Result<DiskSpeed>> disk;
};

// Something that is far below what it should be, and what to do about it.
struct Advice {
  std::string what;    // "fsync takes 80 ms, and each checkpoint waits for several"
  std::string to_do;   // "put the runs on a local disk"
  bool stops = false;  // training cannot work here until it is mended
};

// In the order in which one would mend them: what stops first.
std::vector<Advice> judge(const Findings& findings);

// 0 if this machine can train (exit_codes.h).
int doctor_exit_code(const Findings& findings);

// A paragraph of the answer each, for people; several lines where there is much to say.
std::string describe_machine(const Findings& findings);
std::string describe_libtorch(const Findings& findings);
std::string describe_gpus(const Findings& findings);
std::string describe_peak(const Findings& findings);
std::string describe_memory_speed(const Findings& findings);
std::string describe_disk(const Findings& findings);
std::string describe_cpu_speed(const Findings& findings);
std::string describe_gpu_speed(const Findings& findings);  // empty without a GPU
std::string describe_advice(const std::vector<Advice>& advice);

// All of it, for programs.
nlohmann::json doctor_json(const Findings& findings);

// "4711 (python3)"; the name is left out where /proc does not show the process.
std::string name_process(int64_t pid);

}  // namespace tern
