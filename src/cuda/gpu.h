// What NVIDIA's driver says about the GPUs here, by NVML, which is loaded by dlopen: a machine
// without a driver runs the same programs. Needs no CUDA and no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace tern {

struct GpuProcess {
  int64_t pid = 0;  // as the driver's pid namespace has it, which may not be ours in a container
  int64_t memory_bytes = 0;  // 0: the driver does not tell
  std::string name;          // by other_processes(), of this machine's /proc; empty: not seen there
};

// What a GPU does at this moment. What it does not tell is nothing: 0 would be an answer.
struct GpuUse {
  std::optional<double> activity;  // 0 to 1: part of the last moment in which any kernel ran, which
                                   // says nothing of how much of the GPU it used
  std::optional<double> memory_activity;  // 0 to 1: likewise, in which memory was read or written
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> memory_used_bytes;  // by all processes
  std::optional<double> temperature_c;
};

// What a GPU does not tell is empty, or 0.
struct Gpu {
  int index = 0;
  std::string name;  // "NVIDIA H200"
  std::string uuid;
  int capability_major = 0;
  int capability_minor = 0;
  int64_t memory_bytes = 0;
  int64_t memory_used_bytes = 0;
  double power_limit_watts = 0;
  double temperature_c = 0;
  std::vector<GpuProcess> processes;  // that compute on it now, ours included
};

// Safe from any thread; calls take microseconds to milliseconds.
class GpuDriver {
 public:
  // not_found where there is no driver, or one that waits for a GPU that is not there (the normal
  // cases on a CPU machine); unavailable where there is one that does not work, with what to do.
  // Tests give another library and another list of the machine's devices.
  static Result<std::unique_ptr<GpuDriver>> open(
      const std::string& library = "libnvidia-ml.so.1",
      const std::filesystem::path& pci_devices = "/sys/bus/pci/devices");
  ~GpuDriver();

  const std::string& driver_version() const { return driver_version_; }  // "580.159.04"
  const std::string& cuda_version() const { return cuda_version_; }  // "13.0": the newest it runs
  Result<std::vector<Gpu>> gpus();
  // Since the driver was loaded, in joules; its difference over a time is mean power. `unavailable`
  // on GPUs that do not count it (older than Volta).
  Result<double> energy_joules(int index);
  // `unavailable` if there is no such GPU, or it is lost.
  Result<GpuUse> use(int index);
  // Who else computes on the GPU, with their names by `proc`. Ask before own work begins there: in
  // a container the driver may know this process under another pid than `own_pid`.
  Result<std::vector<GpuProcess>> other_processes(int index, int64_t own_pid,
                                                  const std::filesystem::path& proc = "/proc");

 private:
  struct Library;
  explicit GpuDriver(std::unique_ptr<Library> library);
  Result<Gpu> read_gpu(unsigned index);

  // Constant after open().
  std::unique_ptr<Library> library_;
  std::string driver_version_;
  std::string cuda_version_;
};

}  // namespace tern
