// What this machine is, as far as a run's records and `tern doctor` want to know.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tern {

// What cannot be seen is empty, or 0. Text is printable ASCII: it goes into records.
struct Machine {
  std::string cpu;                        // "AMD EPYC 9R14"
  std::vector<std::string> cpu_features;  // of those that matter to arithmetic: "avx2", "avx512f"
  int64_t cores = 0;                      // that this process may use
  double cpu_limit = 0;                   // cores that the cgroup grants; 0: no limit
  int64_t memory_bytes = 0;
  int64_t memory_limit_bytes = 0;  // of the cgroup; 0: no limit
  std::string kernel;              // "6.1.0-18-amd64"
  std::string system;              // "Debian GNU/Linux 12 (bookworm)"
  std::string container;           // "podman", "docker", "kubernetes", "apptainer": inside one
  std::string container_image;     // where the container tells it
  std::string cloud;               // "aws", "gcp", "azure", by the firmware's tables
  std::string instance_type;       // "g5.xlarge", where the firmware tells it
};

// Reads /proc, /sys, /etc and /run below `root`; asks no network. Never fails.
Machine read_machine(const std::filesystem::path& root = "/");

// Whether the CPU multiplies bfloat16 by instructions of its own; without them it is emulated.
bool cpu_has_bfloat16(const Machine& machine);

// Cores that this process may use, whatever a cgroup grants of their time; at least 1.
int64_t usable_cores();

}  // namespace tern
