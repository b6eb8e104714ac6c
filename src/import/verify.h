// `tern data verify`: reads every byte of a data set and names what is damaged.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "dataset/indexed_dataset.h"

namespace tern {

struct VerifyOptions {
  int64_t threads = 2;
  bool decode = false;         // decode every sample too: finds what was damaged before import
  size_t damages_max = 1'000;  // more are counted, not listed
};

struct VerifyResult {
  int64_t samples = 0;
  int64_t bytes = 0;    // read
  int64_t damaged = 0;  // samples and files
  // "n01440764/x.JPEG in shards/00003.shard at 1234: ...", in the order of the index.
  std::vector<std::string> damages;
};

// Shards are read whole and compared with the index; samples that were indexed in place are read
// one by one. Blocks; uses its own threads; progress goes to `log`. `cancelled` when `stop` fires.
// Damage is an answer, not an error, and so is a shard that is gone; `not_found` if the folder that
// was indexed in place is gone; of a store that does not answer its error.
Result<VerifyResult> verify_data_set(const ImportedData& data, const VerifyOptions& options,
                                     Log& log, Clock& clock, std::stop_token stop);

}  // namespace tern
