// Whole data files in memory, plain or gzip.
#pragma once

#include <cstdint>
#include <string>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// The content of a file; a gzip file (told by its first two bytes, whatever its name) is inflated.
// Never returns, nor takes memory for, much more than `bytes_max` bytes. Errors name the file:
// not_found, permission_denied, invalid (no regular file), exhausted (larger than bytes_max) and
// corrupt (a gzip file that is truncated, damaged or followed by something else).
Result<Bytes> read_data_file(const std::string& path, int64_t bytes_max);

}  // namespace tern
