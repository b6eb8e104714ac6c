// Bytes and views of them, as they travel between stores, files and formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

// A std::string because every library we hand bytes to (JSON, TOML, hashing, curl) speaks it.
using Bytes = std::string;
using BytesView = std::string_view;

}  // namespace tern
