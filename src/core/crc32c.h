// CRC-32C (Castagnoli): the checksum of every stored sample. By the CPU's instruction where it has
// one (three at once, 20 GB/s), by tables elsewhere; the same number either way.
#pragma once

#include <cstdint>

#include "core/bytes.h"

namespace tern {

// `seed` is the checksum of the bytes before these: crc32c(b, crc32c(a)) == crc32c(a + b).
uint32_t crc32c(BytesView bytes, uint32_t seed = 0);

// For its test: the way without the instruction, and whether crc32c() takes the other one.
uint32_t crc32c_by_table(BytesView bytes, uint32_t seed = 0);
bool crc32c_has_instruction();

}  // namespace tern
