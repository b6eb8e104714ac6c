// Whether a folder of several machines is one and the same: a mark that one leaves, others see.
#pragma once

#include <filesystem>
#include <string>

#include "core/clock.h"
#include "core/result.h"

namespace tern {

// Makes a small file in `folder`, or where that is not there yet in the nearest folder above it;
// how many levels above is returned. REQUIRES: the token is a random one.
Result<int64_t> leave_mark(const std::filesystem::path& folder, const std::string& token);

// Whether the mark is there. A network's file system may show it late: looks for two seconds.
bool sees_mark(const std::filesystem::path& folder, int64_t levels, const std::string& token,
               Clock& clock);

void clear_mark(const std::filesystem::path& folder, int64_t levels, const std::string& token);

}  // namespace tern
