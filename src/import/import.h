// `tern data import`: from what a user has to a data set that a run takes by data.path.
//
// Indexed in place, the destination gets one file, the index. Packed, it gets shards/ and the
// index, which is written last: a folder without dataset.tern is an import that is not finished.
// Killed at any instant, the same command goes on: whole shards are kept, the source is scanned
// past what they hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "dataset/index.h"
#include "import/representation.h"
#include "import/source.h"

namespace tern {

struct ImportOptions {
  std::filesystem::path destination;
  std::optional<Representation> pack;  // nothing: index in place
  int64_t threads = 2;
  int64_t shard_bytes = int64_t{64} << 20;
  int64_t statistics_samples = 1'000;  // of train, spread evenly, for mean and standard deviation
  // What the source was opened with, and the address it was fetched from, if it was: recorded.
  double test_share = 0;
  std::string address;
  std::string tern_version;
};

struct ImportResult {
  int64_t train_samples = 0;
  int64_t test_samples = 0;
  int64_t classes = 0;
  int64_t bytes = 0;                 // of samples
  int64_t bad = 0;                   // listed in the index with their causes
  int64_t ignored = 0;               // files that are no samples
  int64_t taken_over = 0;            // samples that an earlier, interrupted import had packed
  std::vector<BadSample> first_bad;  // some of them, for people
  std::string id;
};

// Blocks until done; `stop` ends it with `cancelled`, and what is packed so far stays for the next
// call. One import at a time works on a folder (flock on import.lock): another is
// `failed_precondition` and says so. A destination that holds a finished data set, an unfinished
// import of something else, or other files is `failed_precondition`, with what to do. Bad samples
// (no image, damaged) are listed, not packed; if all are bad, or none is found, that is an error.
// Progress with ETA goes to `log`. Everything is verified at the end: shards by reading them back.
Result<ImportResult> import_dataset(Source& source, const ImportOptions& options, Log& log,
                                    Clock& clock, std::stop_token stop);

}  // namespace tern
