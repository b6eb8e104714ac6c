#include "cuda/gpu.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/system_files.h"
#include "cuda/nvml.h"

namespace tern {
namespace {

// Far more than a machine has; a bound on what a broken driver can make us do.
constexpr unsigned kGpusMax = 64;
constexpr unsigned kProcessesMax = 1024;

int64_t to_signed(unsigned long long bytes) {
  return bytes == nvml::kNotAvailable ? 0 : static_cast<int64_t>(bytes);
}

// NVML ends its texts with a zero; what is beyond its buffer is not read if it did not.
template <size_t kSize>
std::string text_of(const std::array<char, kSize>& buffer) {
  return {buffer.begin(), std::find(buffer.begin(), buffer.end(), '\0')};
}

}  // namespace

// The loaded library, unloaded with its scope. Optional entries are null in older drivers.
struct GpuDriver::Library {
  void* handle = nullptr;
  bool is_initialised = false;

  nvml::Return (*init)() = nullptr;
  nvml::Return (*shutdown)() = nullptr;
  const char* (*error_string)(nvml::Return) = nullptr;
  nvml::Return (*driver_version)(char*, unsigned) = nullptr;
  nvml::Return (*cuda_version)(int*) = nullptr;
  nvml::Return (*device_count)(unsigned*) = nullptr;
  nvml::Return (*device)(unsigned, nvml::Device*) = nullptr;
  nvml::Return (*name)(nvml::Device, char*, unsigned) = nullptr;
  nvml::Return (*uuid)(nvml::Device, char*, unsigned) = nullptr;
  nvml::Return (*capability)(nvml::Device, int*, int*) = nullptr;
  nvml::Return (*memory)(nvml::Device, nvml::Memory*) = nullptr;
  // Optional.
  nvml::Return (*power_limit_mw)(nvml::Device, unsigned*) = nullptr;
  nvml::Return (*temperature)(nvml::Device, unsigned, unsigned*) = nullptr;
  nvml::Return (*processes)(nvml::Device, unsigned*, nvml::ProcessInfo*) = nullptr;
  nvml::Return (*energy_mj)(nvml::Device, unsigned long long*) = nullptr;
  nvml::Return (*utilization)(nvml::Device, nvml::Utilization*) = nullptr;
  nvml::Return (*power_mw)(nvml::Device, unsigned*) = nullptr;
  nvml::Return (*clock_mhz)(nvml::Device, unsigned, unsigned*) = nullptr;

  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (is_initialised) shutdown();
    if (handle != nullptr) dlclose(handle);
  }

  template <typename Function>
  bool find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(handle, symbol));
    return function != nullptr;
  }

  // False if an entry that every driver of the last years has is missing.
  bool find_all() {
    find(power_limit_mw, "nvmlDeviceGetEnforcedPowerLimit");
    find(temperature, "nvmlDeviceGetTemperature");
    find(energy_mj, "nvmlDeviceGetTotalEnergyConsumption");
    find(utilization, "nvmlDeviceGetUtilizationRates");
    find(power_mw, "nvmlDeviceGetPowerUsage");
    find(clock_mhz, "nvmlDeviceGetClockInfo");
    if (!find(processes, "nvmlDeviceGetComputeRunningProcesses_v3")) {
      find(processes, "nvmlDeviceGetComputeRunningProcesses_v2");
    }
    return find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
           find(error_string, "nvmlErrorString") &&
           find(driver_version, "nvmlSystemGetDriverVersion") &&
           find(cuda_version, "nvmlSystemGetCudaDriverVersion_v2") &&
           find(device_count, "nvmlDeviceGetCount_v2") &&
           find(device, "nvmlDeviceGetHandleByIndex_v2") && find(name, "nvmlDeviceGetName") &&
           find(uuid, "nvmlDeviceGetUUID") &&
           find(capability, "nvmlDeviceGetCudaComputeCapability") &&
           find(memory, "nvmlDeviceGetMemoryInfo");
  }

  // The answer to an optional question, if there is one.
  static std::optional<double> ask(nvml::Return (*question)(nvml::Device, unsigned*),
                                   nvml::Device device) {
    unsigned value = 0;
    if (question == nullptr || question(device, &value) != nvml::kSuccess) return std::nullopt;
    return value;
  }
  static std::optional<double> ask(nvml::Return (*question)(nvml::Device, unsigned, unsigned*),
                                   nvml::Device device, unsigned which) {
    unsigned value = 0;
    if (question == nullptr || question(device, which, &value) != nvml::kSuccess) {
      return std::nullopt;
    }
    return value;
  }

  std::string explain(nvml::Return error) const {
    const char* text = error_string(error);
    return text == nullptr ? fmt::format("error {}", error) : text;
  }
};

namespace {

std::string what_to_do(nvml::Return error) {
  if (error == nvml::kDriverNotLoaded) {
    return "load its kernel module (`modprobe nvidia`) or restart the machine";
  }
  if (error == nvml::kMismatch) {
    return "the driver was updated while it was loaded; restart the machine";
  }
  return "see what `nvidia-smi` says";
}

// By PCI's numbers of makers and kinds: images for GPUs bring the library to every machine.
bool has_nvidia_gpu(const std::filesystem::path& pci_devices) {
  std::error_code error;
  std::filesystem::directory_iterator device(pci_devices, error);
  for (; !error && device != std::filesystem::directory_iterator(); device.increment(error)) {
    const bool is_nvidia = read_system_file(device->path() / "vendor").starts_with("0x10de");
    if (is_nvidia && read_system_file(device->path() / "class").starts_with("0x03")) return true;
  }
  return false;
}

}  // namespace

GpuDriver::GpuDriver(std::unique_ptr<Library> library) : library_(std::move(library)) {}
GpuDriver::~GpuDriver() = default;

Result<std::unique_ptr<GpuDriver>> GpuDriver::open(const std::string& library_name,
                                                   const std::filesystem::path& pci_devices) {
  auto library = std::make_unique<Library>();
  library->handle = dlopen(library_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) {
    const char* why = dlerror();
    return fail(Code::not_found,
                fmt::format("no NVIDIA driver ({}); a GPU needs one, and a container must be "
                            "started with its GPUs (docker: --gpus all)",
                            why == nullptr ? library_name : why));
  }
  if (!library->find_all()) {
    return fail(Code::unavailable,
                "the NVIDIA driver is too old to be asked; install version 580 or newer");
  }
  if (const nvml::Return error = library->init(); error != nvml::kSuccess) {
    if (error == nvml::kDriverNotLoaded && !has_nvidia_gpu(pci_devices)) {
      return fail(Code::not_found, "no NVIDIA GPU, though its driver's library is here");
    }
    return fail(Code::unavailable, fmt::format("the NVIDIA driver does not work: {}; {}",
                                               library->explain(error), what_to_do(error)));
  }
  library->is_initialised = true;

  std::array<char, nvml::kDriverVersionBytes> version{};
  int cuda = 0;
  library->driver_version(version.data(), nvml::kDriverVersionBytes);
  library->cuda_version(&cuda);
  std::unique_ptr<GpuDriver> driver(new GpuDriver(std::move(library)));
  driver->driver_version_ = text_of(version);
  if (cuda > 0) driver->cuda_version_ = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  return driver;
}

Result<std::vector<Gpu>> GpuDriver::gpus() {
  unsigned count = 0;
  if (const nvml::Return error = library_->device_count(&count); error != nvml::kSuccess) {
    return fail(Code::unavailable, fmt::format("cannot count the GPUs: {}; {}",
                                               library_->explain(error), what_to_do(error)));
  }
  std::vector<Gpu> gpus;
  for (unsigned i = 0; i < std::min(count, kGpusMax); ++i) {
    ASSIGN_OR_RETURN(Gpu gpu, read_gpu(i));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Result<Gpu> GpuDriver::read_gpu(unsigned index) {
  nvml::Device device = nullptr;
  if (const nvml::Return error = library_->device(index, &device); error != nvml::kSuccess) {
    return fail(Code::unavailable, fmt::format("cannot reach GPU {}: {}; {}", index,
                                               library_->explain(error), what_to_do(error)));
  }
  // From here on a question that is not answered leaves its field as it is.
  Gpu gpu{.index = static_cast<int>(index)};
  std::array<char, nvml::kNameBytes> text{};
  if (library_->name(device, text.data(), nvml::kNameBytes) == nvml::kSuccess) {
    gpu.name = text_of(text);
  }
  text.fill('\0');
  if (library_->uuid(device, text.data(), nvml::kUuidBytes) == nvml::kSuccess) {
    gpu.uuid = text_of(text);
  }
  library_->capability(device, &gpu.capability_major, &gpu.capability_minor);
  nvml::Memory memory{};
  if (library_->memory(device, &memory) == nvml::kSuccess) {
    gpu.memory_bytes = to_signed(memory.total_bytes);
    gpu.memory_used_bytes = to_signed(memory.used_bytes);
  }
  gpu.power_limit_watts = Library::ask(library_->power_limit_mw, device).value_or(0) / 1000.0;
  gpu.temperature_c =
      Library::ask(library_->temperature, device, nvml::kTemperatureOfGpu).value_or(0);
  if (library_->processes == nullptr) return gpu;
  // Some may come between counting and listing; then the list is tried once more, larger.
  unsigned count = 16;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<nvml::ProcessInfo> found(std::min(count, kProcessesMax));
    count = static_cast<unsigned>(found.size());
    const nvml::Return error = library_->processes(device, &count, found.data());
    if (error == nvml::kInsufficientSize) {
      count = std::max(count, static_cast<unsigned>(found.size())) * 2;
      continue;
    }
    if (error != nvml::kSuccess) break;
    found.resize(std::min<size_t>(count, found.size()));
    for (const nvml::ProcessInfo& process : found) {
      gpu.processes.push_back(
          {.pid = process.pid, .memory_bytes = to_signed(process.used_memory_bytes)});
    }
    break;
  }
  return gpu;
}

Result<GpuUse> GpuDriver::use(int index) {
  nvml::Device device = nullptr;
  const nvml::Return error =
      index < 0 ? nvml::kNotSupported : library_->device(static_cast<unsigned>(index), &device);
  if (error != nvml::kSuccess) {
    return fail(Code::unavailable, fmt::format("cannot reach GPU {}: {}; {}", index,
                                               library_->explain(error), what_to_do(error)));
  }
  GpuUse use;
  nvml::Utilization utilization{};
  if (library_->utilization != nullptr &&
      library_->utilization(device, &utilization) == nvml::kSuccess) {
    use.activity = utilization.gpu_percent / 100.0;
    use.memory_activity = utilization.memory_percent / 100.0;
  }
  const auto watts = [](std::optional<double> milliwatts) {
    if (milliwatts) *milliwatts /= 1000.0;
    return milliwatts;
  };
  use.power_watts = watts(Library::ask(library_->power_mw, device));
  use.power_limit_watts = watts(Library::ask(library_->power_limit_mw, device));
  use.sm_clock_mhz = Library::ask(library_->clock_mhz, device, nvml::kClockOfSms);
  use.memory_clock_mhz = Library::ask(library_->clock_mhz, device, nvml::kClockOfMemory);
  use.temperature_c = Library::ask(library_->temperature, device, nvml::kTemperatureOfGpu);
  nvml::Memory memory{};
  if (library_->memory(device, &memory) == nvml::kSuccess) {
    use.memory_used_bytes = static_cast<double>(to_signed(memory.used_bytes));
  }
  return use;
}

Result<std::vector<GpuProcess>> GpuDriver::other_processes(int index, int64_t own_pid,
                                                           const std::filesystem::path& proc) {
  if (index < 0) {
    return fail(Code::unavailable, fmt::format("there is no GPU {}; see `nvidia-smi -L`", index));
  }
  ASSIGN_OR_RETURN(Gpu gpu, read_gpu(static_cast<unsigned>(index)));
  std::erase_if(gpu.processes, [&](const GpuProcess& each) { return each.pid == own_pid; });
  for (GpuProcess& process : gpu.processes) {
    process.name = printable_line(read_system_file(proc / std::to_string(process.pid) / "comm"));
  }
  return std::move(gpu.processes);
}

Result<double> GpuDriver::energy_joules(int index) {
  nvml::Device device = nullptr;
  unsigned long long energy_mj = 0;
  nvml::Return error = nvml::kNotSupported;
  if (library_->energy_mj != nullptr && index >= 0) {
    error = library_->device(static_cast<unsigned>(index), &device);
    if (error == nvml::kSuccess) error = library_->energy_mj(device, &energy_mj);
  }
  if (error != nvml::kSuccess) {
    return fail(Code::unavailable,
                fmt::format("GPU {} does not tell its energy: {}; a newer driver may, GPUs older "
                            "than Volta do not",
                            index, library_->explain(error)));
  }
  return static_cast<double>(energy_mj) / 1000.0;
}

}  // namespace tern
