// What a machine costs, as people type it.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/result.h"

namespace tern {

// Micro-dollars per hour from "0.526/h", "$0.526/h", "0.526" or "$0.526". `invalid`, with the right
// form, for anything else and for more than $100,000 an hour.
Result<int64_t> parse_price(std::string_view text);

}  // namespace tern
