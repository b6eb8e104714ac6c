// --on-event CMD: telling somebody that a training process has ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "report/run_report.h"

namespace tern {

// How a training process ended, as the command sees it in its environment.
struct RunEvent {
  RunStatus status = RunStatus::failed;  // TERN_EVENT: done, failed, preempted or stopped
  std::string run;                       // TERN_RUN: the run's folder
  int64_t step = 0;                      // TERN_STEP
  int64_t steps_lost = 0;                // TERN_STEPS_LOST
  std::string reason;                    // TERN_REASON, on one line
  int exit_code = 0;                     // TERN_EXIT_CODE: what this process will exit with
};

struct EventLimits {
  // Short enough to fit into the shortest notice (30 s) together with the save before it.
  Nanoseconds run_max = std::chrono::seconds(20);
  // Between the request to end and the end.
  Nanoseconds grace = std::chrono::seconds(2);
};

// Runs `sh -c COMMAND` and waits for it: stdin is /dev/null, its output goes to our stderr, signals
// are as a new program expects them. A command that takes longer than `limits` is ended with its
// whole process group; what it left in the background before it exited lives on. Call it when
// everything is saved. An error is what went wrong with the command: to be warned of, never to
// change how this process ends. An empty command is no command.
Status run_event_command(const std::string& command, const RunEvent& event, Clock& clock, Log& log,
                         const EventLimits& limits = {});

// Text for an environment variable: control characters become spaces, and at most 1000 bytes are
// kept.
std::string one_line(std::string_view text);

}  // namespace tern
