// The processes of a launched run on this machine, found by the mark in their environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern {

// Every process that a launched run starts has this variable, with the run's id and the machine's
// number, unless it takes pains to lose it.
inline constexpr char kMarkVariable[] = "TERN_LAUNCH";

struct MarkedProcess {
  int64_t pid = 0;
  int64_t start = 0;  // clock ticks since the boot: tells it from a later process of its pid
  std::string title;  // its command line
};

// Those that live and have the mark, and all below them; without this process. A process of another
// user is not seen.
std::vector<MarkedProcess> find_marked_processes(const std::string& mark);

// Sends the signal if the process is still the one that was found. False if it is gone.
bool signal_process(int64_t pid, int64_t start, int number);

}  // namespace tern
