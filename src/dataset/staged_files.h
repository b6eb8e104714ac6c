// A local copy of a data set's files, made once, ahead of need and verified, for data that lives on
// a mounted network file system or in a bucket: data.stage = DIR.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataset/sample_files.h"

namespace tern {

struct StageSetup {
  std::unique_ptr<SampleFiles> source;
  const DatasetIndex* index = nullptr;  // outlives it
  std::string folder;                   // data.stage
  int64_t threads = 2;
  int64_t block_bytes = int64_t{8} << 20;
  // Files are copied in this order; what a reader misses jumps the queue. Empty: that of the index.
  std::vector<int64_t> order;
  // Both may be null and are called from any thread: a file was not copied, or its copy turned bad;
  // a file is read from its copy from now on.
  std::function<void(int64_t file, const Error& error)> on_failure;
  std::function<void(int64_t file)> on_staged;
};

// Copies in the background, begins at once. Until a file is here whole and verified (the checksum
// of every sample in it), reads go to the source. Copies are in `folder`/<first 16 digits of the
// id>/, under a temporary name until verified and synced, so that a name means a whole file and the
// next process uses it at once; several processes may stage into one folder: a file that another is
// copying is left to it while that one lives.
//
// Staging never fails a run: whatever is wrong with a copy, then or later, the source is read. What
// the source does wrong costs that file, which is tried again (three times in all) when it is read;
// what the local disk does wrong (it is full) ends the copying. Each is told once. The destructor
// stops the copying and removes what is half-done. Fails only if `folder` cannot be made.
Result<std::unique_ptr<SampleFiles>> stage_files(StageSetup setup);

}  // namespace tern
