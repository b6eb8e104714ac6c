// What Linux counts of this process and of the machine: processor time, memory, disk, network. The
// parsers are pure functions of /proc's text; what they do not find they leave open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/event_format.h"

namespace tern {

struct MachineTicks {
  int64_t busy = 0;
  int64_t total = 0;  // of all cores together

  bool operator==(const MachineTicks&) const = default;
};

struct DiskBytes {
  int64_t read = 0;
  int64_t written = 0;

  bool operator==(const DiskBytes&) const = default;
};

struct InterfaceBytes {
  std::string name;  // "eth0"
  int64_t received = 0;
  int64_t sent = 0;

  bool operator==(const InterfaceBytes&) const = default;
};

std::optional<MachineTicks> parse_machine_ticks(std::string_view stat);       // /proc/stat
std::optional<int64_t> parse_process_ticks(std::string_view stat);            // /proc/self/stat
std::optional<int64_t> parse_resident_pages(std::string_view statm);          // /proc/self/statm
std::optional<int64_t> parse_available_bytes(std::string_view meminfo);       // /proc/meminfo
std::optional<DiskBytes> parse_disk_bytes(std::string_view io);               // /proc/self/io
std::vector<InterfaceBytes> parse_interface_bytes(std::string_view net_dev);  // /proc/net/dev

// All of it at one moment.
struct SystemCounters {
  std::optional<MachineTicks> machine;
  std::optional<int64_t> process_ticks;
  std::optional<int64_t> resident_bytes;
  std::optional<int64_t> available_bytes;  // of the machine's memory
  std::optional<DiskBytes> disk;           // that this process had read and written; not from cache
  std::vector<InterfaceBytes> network;
};

// Takes some tens of microseconds; never fails.
SystemCounters read_system_counters(const std::filesystem::path& proc);

// What happened between two moments, by name: "cpu_process_cores",
// "net/eth0/sent_bytes_per_second". The names are in docs/observe.md. A counter that went back (an
// interface that was made anew) is left out. REQUIRES: seconds > 0.
std::vector<Scalar> system_use(const SystemCounters& before, const SystemCounters& after,
                               double seconds, double ticks_per_second);

}  // namespace tern
