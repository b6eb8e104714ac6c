// The part of NVIDIA's management library (NVML) that we call, declared by us so that no header of
// theirs is needed to build. Names, numbers and layouts are NVML's and never change: a new layout
// gets a new name (_v2, _v3).
#pragma once

namespace tern::nvml {

using Device = struct DeviceTag*;
using Return = int;

constexpr Return kSuccess = 0;
constexpr Return kNotSupported = 3;
constexpr Return kInsufficientSize = 7;
constexpr Return kDriverNotLoaded = 9;
constexpr Return kMismatch = 18;  // the library is of another version than the kernel's module
constexpr unsigned long long kNotAvailable = ~0ULL;

constexpr unsigned kDriverVersionBytes = 80;
constexpr unsigned kNameBytes = 96;
constexpr unsigned kUuidBytes = 96;
constexpr unsigned kTemperatureOfGpu = 0;
constexpr unsigned kClockOfSms = 1;
constexpr unsigned kClockOfMemory = 2;

struct Memory {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};

// Of nvmlDeviceGetUtilizationRates: percent of the last moment (1/6 s to 1 s) in which a kernel
// ran, and in which memory was read or written.
struct Utilization {
  unsigned gpu_percent;
  unsigned memory_percent;
};

// Of nvmlDeviceGetComputeRunningProcesses_v2 and _v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

}  // namespace tern::nvml
