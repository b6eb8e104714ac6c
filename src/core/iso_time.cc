#include "core/iso_time.h"

#include <chrono>
#include <cstddef>

namespace tern {
namespace {

// Takes exactly `digits` digits from the front; -1 if there are not that many.
int take_number(std::string_view& text, size_t digits) {
  if (text.size() < digits) return -1;
  int number = 0;
  for (size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    number = number * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

// ".789" as milliseconds; further digits are cut off.
std::optional<int> take_fraction(std::string_view& text) {
  if (!take(text, '.')) return 0;
  int ms = 0;
  size_t digits = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; ++digits, text.remove_prefix(1)) {
    if (digits < 3) ms = ms * 10 + (text[0] - '0');
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 3; ++digits) ms *= 10;
  return ms;
}

}  // namespace

std::optional<int64_t> parse_iso_time(std::string_view text) {
  const int year = take_number(text, 4);
  if (year < 0 || !take(text, '-')) return std::nullopt;
  const int month = take_number(text, 2);
  if (month < 0 || !take(text, '-')) return std::nullopt;
  const int day = take_number(text, 2);
  if (day < 0 || !take(text, 'T')) return std::nullopt;
  const int hour = take_number(text, 2);
  if (hour < 0 || hour > 23 || !take(text, ':')) return std::nullopt;
  const int minute = take_number(text, 2);
  if (minute < 0 || minute > 59 || !take(text, ':')) return std::nullopt;
  const int second = take_number(text, 2);
  if (second < 0 || second > 60) return std::nullopt;
  const std::optional<int> ms = take_fraction(text);
  if (!ms || (text != "Z" && text != "+00:00" && text != "+0000")) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok()) return std::nullopt;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60'000 + second * 1000 + *ms;
}

}  // namespace tern
