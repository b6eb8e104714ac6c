// Names that nothing else has: for a process, for one write; and secrets.
#pragma once

#include <string>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// From the kernel's generator. Fails only where a sandbox forbids to ask. REQUIRES: count <= 256.
Result<Bytes> random_bytes(size_t count);

// 128 random bits as 32 hexadecimal digits, from the kernel and never from a run's seed: no two
// calls anywhere have the same, also not in a process that was forked. Fails only where a sandbox
// forbids to ask.
Result<std::string> random_token();

}  // namespace tern
