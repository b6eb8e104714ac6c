// Dates as HTTP has them: "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tern {

std::string format_http_date(int64_t unix_ms);

// Nothing for what is not exactly of that form, or no day of a calendar.
std::optional<int64_t> parse_http_date(std::string_view text);

}  // namespace tern
