// A driver's library for the tests: two GPUs that never were, answered under NVML's names.
#include <algorithm>
#include <cstring>

#include "cuda/nvml.h"

namespace {

using tern::nvml::Device;
using tern::nvml::Memory;
using tern::nvml::ProcessInfo;
using tern::nvml::Return;
using tern::nvml::Utilization;

constexpr Return kOk = tern::nvml::kSuccess;
constexpr int kNotFound = 6;

// What the test has asked for; this file is a library of its own, which only tests load.
struct State {
  Return init = kOk;       // what nvmlInit_v2 answers
  Return device = kOk;     // what every question about a GPU answers
  unsigned processes = 1;  // on GPU 0
  int initialised = 0;     // calls of nvmlInit_v2 less those of nvmlShutdown
};
State& state() {
  static State the_state;
  return the_state;
}

// Handles only need to be told apart.
char gpus[2];

int index_of(Device device) { return static_cast<int>(reinterpret_cast<char*>(device) - &gpus[0]); }

Return put(const char* text, char* to, unsigned size) {
  std::strncpy(to, text, size);
  return state().device;
}

}  // namespace

extern "C" {

void fake_nvml_set(Return init, Return device, unsigned processes) {
  state().init = init;
  state().device = device;
  state().processes = processes;
}
int fake_nvml_initialised() { return state().initialised; }

Return nvmlInit_v2() {
  state().initialised += state().init == kOk ? 1 : 0;
  return state().init;
}
Return nvmlShutdown() {
  --state().initialised;
  return kOk;
}
const char* nvmlErrorString(Return error) { return error == 9 ? "Driver Not Loaded" : "Trouble"; }
Return nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "580.159.04", size);
  return kOk;
}
Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13020;
  return kOk;
}
Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kOk;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (index >= 2) return kNotFound;
  *device = reinterpret_cast<Device>(&gpus[index]);
  return kOk;
}
Return nvmlDeviceGetName(Device device, char* text, unsigned size) {
  // The second name fills its buffer, so that no zero ends it.
  if (index_of(device) == 0) return put("NVIDIA H200", text, size);
  std::memset(text, 'n', size);
  return state().device;
}
Return nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  return put(index_of(device) == 0 ? "GPU-0" : "GPU-1", text, size);
}
Return nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  if (state().device != kOk) return state().device;
  *major = index_of(device) == 0 ? 9 : 7;
  *minor = index_of(device) == 0 ? 0 : 5;
  return kOk;
}
Return nvmlDeviceGetMemoryInfo(Device, Memory* memory) {
  *memory = {.total_bytes = 150ULL << 30, .free_bytes = 149ULL << 30, .used_bytes = 1ULL << 30};
  return state().device;
}
Return nvmlDeviceGetEnforcedPowerLimit(Device, unsigned* milliwatts) {
  *milliwatts = 699500;
  return state().device;
}
Return nvmlDeviceGetTemperature(Device, unsigned, unsigned* celsius) {
  *celsius = 41;
  return state().device;
}
Return nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  *utilization = {.gpu_percent = index_of(device) == 0 ? 97U : 0U, .memory_percent = 40};
  return state().device;
}
Return nvmlDeviceGetPowerUsage(Device, unsigned* milliwatts) {
  *milliwatts = 612250;
  return state().device;
}
Return nvmlDeviceGetClockInfo(Device, unsigned kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1980 : 3201;
  return state().device;
}
Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* found) {
  const unsigned here = index_of(device) == 0 ? state().processes : 0;
  const unsigned room = *count;
  *count = here;
  if (room < here) return tern::nvml::kInsufficientSize;
  for (unsigned i = 0; i < here; ++i) {
    found[i] = {.pid = 100 + i, .used_memory_bytes = i == 0 ? 5ULL << 20 : ~0ULL};
  }
  return state().device;
}
Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* millijoules) {
  *millijoules = 1500 + 1000ULL * static_cast<unsigned>(index_of(device));
  return state().device;
}

}  // extern "C"
