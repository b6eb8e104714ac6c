#include "core/http_date.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace tern {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::optional<int> number_at(std::string_view text, size_t at, size_t digits) {
  int number = 0;
  for (const char c : text.substr(at, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number;
}

}  // namespace

std::string format_http_date(int64_t unix_ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> time{milliseconds(unix_ms)};
  const sys_days day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss<seconds> clock(floor<seconds>(time) - day);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[weekday(day).c_encoding()],
                     static_cast<unsigned>(date.day()),
                     kMonths[static_cast<unsigned>(date.month()) - 1],
                     static_cast<int>(date.year()), clock.hours().count(), clock.minutes().count(),
                     clock.seconds().count());
}

std::optional<int64_t> parse_http_date(std::string_view text) {
  using namespace std::chrono;
  if (text.size() != 29 || text[3] != ',' || text[19] != ':' || text[22] != ':') return {};
  if (!text.ends_with(" GMT")) return {};
  const auto month = std::find(kMonths.begin(), kMonths.end(), text.substr(8, 3));
  const std::optional<int> day = number_at(text, 5, 2);
  const std::optional<int> year = number_at(text, 12, 4);
  const std::optional<int> hours = number_at(text, 17, 2);
  const std::optional<int> minutes = number_at(text, 20, 2);
  const std::optional<int> seconds = number_at(text, 23, 2);
  if (month == kMonths.end() || !day || !year || !hours || !minutes || !seconds) return {};
  if (*hours > 23 || *minutes > 59 || *seconds > 60) return {};
  const year_month_day date(std::chrono::year(*year),
                            std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
                            std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return {};
  const int64_t days_since_1970 = sys_days(date).time_since_epoch().count();
  return (days_since_1970 * 86'400 + *hours * 3600 + *minutes * 60 + *seconds) * 1000;
}

}  // namespace tern
