// What the process says by its exit code (docs/errors.md). Scripts rely on them: never renumber.
#pragma once

#include "core/result.h"

namespace tern {

enum ExitCode : int {
  kExitDone = 0,
  kExitInternal = 1,      // a bug, ours or LibTorch's
  kExitUsage = 2,         // flags, run file, options
  kExitNotFound = 3,      // data, recipe, run or LibTorch missing
  kExitCorrupt = 4,       // data or checkpoint does not verify
  kExitPrecondition = 5,  // another process trains this run, or the folder holds another run
  kExitUnavailable = 6,   // disk full, no permission, store not reachable
  kExitLostLease = 7,     // another process took the run over
  kExitDiverged = 8,      // the loss is no longer a number
  kExitStopped = 10,      // Ctrl-C: saved and left
  kExitPreempted = 75,    // a notice: saved and left; run the same command again (EX_TEMPFAIL)
  kExitInterruptedTwice = 130,  // second Ctrl-C: left at once, nothing saved
};

inline ExitCode exit_code_of(Code code) {
  switch (code) {
    case Code::invalid: return kExitUsage;
    case Code::not_found: return kExitNotFound;
    case Code::corrupt: return kExitCorrupt;
    case Code::failed_precondition:
    case Code::already_exists: return kExitPrecondition;
    case Code::permission_denied:
    case Code::exhausted:
    case Code::unavailable:
    case Code::deadline_exceeded: return kExitUnavailable;
    case Code::aborted: return kExitLostLease;
    case Code::cancelled: return kExitStopped;
    case Code::out_of_range: return kExitDiverged;
    case Code::internal: return kExitInternal;
  }
  return kExitInternal;
}

}  // namespace tern
