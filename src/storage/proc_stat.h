// What /proc says of processes and of this machine's boot: enough to tell the living from the dead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tern {

struct ProcessStat {
  char state = '?';  // 'Z' and 'X' are dead
  int64_t parent = 0;
  int64_t start = 0;  // in clock ticks since the boot: tells a process from a later one of its pid
};

// `pid` is a number, or "self", which also answers where /proc shows other pids than getpid().
// Nothing if there is no such process or /proc does not show it.
std::optional<ProcessStat> read_process_stat(const std::string& pid);

// Of the machine's present boot; empty if /proc does not tell.
std::string read_boot_id();

}  // namespace tern
