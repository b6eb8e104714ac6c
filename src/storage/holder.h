// Who trains a run: a process, described so that another process can tell whether it still lives.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"

namespace tern {

// A process that trains a run. `token` is unique per process, so a holder knows its own records.
struct Holder {
  std::string token;
  std::string host;
  std::string boot_id;        // of the machine's present boot
  std::string pid_namespace;  // containers on one machine share boot_id but not pids
  int64_t pid = 0;
  int64_t pid_start = 0;  // from /proc: tells a reused pid from the old process
  std::string group;      // of the ranks that train one run together; empty: it trains alone

  // "pid 4711 on machine tern-3"
  std::string to_string() const;
  bool operator==(const Holder&) const = default;
};

// This process, with a fresh random token. Where /proc tells nothing the fields stay empty, and
// others then cannot know whether we live.
Result<Holder> this_process();

enum class Liveness { alive, dead, unknown };  // unknown: it is, or was, on another machine

// Reads /proc. A courtesy, never a safety: a wrong answer costs a process its run, not the run.
Liveness liveness(const Holder& holder, const Holder& me);

}  // namespace tern
