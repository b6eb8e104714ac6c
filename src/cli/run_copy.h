// Copying a run, whole and verified: what `tern run copy` does.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "cli/object_bytes.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

// The stores outlive the copy.
struct RunCopySetup {
  ObjectStore* from = nullptr;
  ObjectStore* to = nullptr;
  std::string from_name;  // for messages, and to know a copy that was begun before
  std::string to_name;
  MoveOptions move;
  std::stop_token stop;
};

struct RunCopyResult {
  int64_t objects = 0;
  int64_t bytes = 0;
  int64_t there_before = 0;  // objects, from a copy that was stopped
};

// How much there is to copy.
Result<int64_t> run_bytes(ObjectStore& run);

// Copies every object of the run, reads each copy again and compares it byte by byte. Until it is
// finished the copy is marked as unfinished (train/run_place.h) and no command takes it for a run;
// its checkpoints' records and its ledger come last besides. The same copy again goes on: what is
// there is compared instead of copied. failed_precondition if `to` holds anything else.
// REQUIRES: nobody trains the run.
Result<RunCopyResult> copy_run(const RunCopySetup& setup, const OnBytes& on_bytes);

// Takes the mark off: it is a run from then on.
Status finish_copy(const RunCopySetup& setup);

}  // namespace tern
