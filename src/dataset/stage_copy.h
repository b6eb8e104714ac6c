// One file's way into the stage folder: claimed, copied, verified, published.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/sample_files.h"

namespace tern {

struct StageCopy {
  const SampleFiles& source;
  const DatasetIndex& index;
  int64_t file = 0;
  std::span<const int64_t> samples;  // of that file
  std::filesystem::path target;      // made with its folders; TARGET.part until it is whole
  int64_t block_bytes = 0;
};

enum class StageOutcome {
  here,           // the target is whole: we made it, or found it
  elsewhere,      // another process is copying it
  stopped,        // by the token; nothing is left behind
  source_failed,  // it cannot be read, or what it gives does not verify
  disk_failed,    // it cannot be written here: the next file will not do better
};

struct StageResult {
  StageOutcome outcome = StageOutcome::here;
  Error error = {};  // of the last two
};

// Blocks for as long as it takes. `block` is room that is kept between calls.
//
// TARGET.part is locked with flock(2) while it is written: a lock that dies with its process, so
// that a killed one leaves nothing to clean up but bytes that the next one overwrites. The bytes
// are synced before they get their name: the name is then proof that they were verified, also after
// the machine went down, and starting again costs two small reads a file. (A marker file would say
// the same twice; verifying again at every start would read the whole set.) Small files are not
// synced, a tree has a million of them; one that a crash tears is found by those two reads, and
// whatever turns bad later by the checksum of the sample, which every read checks.
StageResult stage_copy(const StageCopy& copy, Bytes& block, std::stop_token stop);

}  // namespace tern
