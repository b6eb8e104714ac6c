#include "report/price.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>

namespace tern {

Result<int64_t> parse_price(std::string_view text) {
  constexpr double kLargest = 100'000;  // as train.price has it
  const Error wrong =
      fail(Code::invalid, fmt::format("\"{}\" is no price; give dollars per hour, up to "
                                      "100,000, like --price 0.526/h",
                                      text));
  std::string_view number = text;
  if (number.starts_with('$')) number.remove_prefix(1);
  if (number.ends_with("/h")) number.remove_suffix(2);
  // from_chars alone would take "-1", "inf" and "1e3", which are slips here. It also refuses what
  // strtod takes: spaces, and a comma where the language has one.
  if (number.find_first_not_of("0123456789.") != std::string_view::npos) return wrong;
  double dollars = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), dollars);
  if (error != std::errc() || end != number.data() + number.size()) return wrong;
  if (dollars > kLargest) return wrong;
  return std::llround(dollars * 1e6);
}

}  // namespace tern
