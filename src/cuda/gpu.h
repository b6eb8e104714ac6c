// What NVIDIA's driver says about the GPUs here, by NVML, which is loaded by dlopen: a machine
// without a driver runs the same programs. Needs no CUDA and no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"

namespace tern {

struct GpuProcess {
  int64_t pid = 0;  // as the driver's pid namespace has it, which may not be ours in a container
  int64_t memory_bytes = 0;  // 0: the driver does not tell
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
