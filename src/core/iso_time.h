// Times as the clouds write them in XML and JSON: "2026-03-01T12:34:56.789Z" (RFC 3339).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tern {

// Milliseconds since 1970. With or without a fraction; in UTC ("Z", "+00:00"), as all of them are.
// Nothing for any other text, and for days and hours that do not exist.
std::optional<int64_t> parse_iso_time(std::string_view text);

}  // namespace tern
