#include "core/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tern {
namespace {

constexpr std::string_view kGap = "  ";
constexpr double kCenturySeconds = 100.0 * 365 * 86'400;

std::string format_amount(double amount, const std::string& unit) {
  if (unit == "bytes") return format_bytes(std::llround(amount));
  // Three digits are enough to see a change.
  if (amount < 9.995) return fmt::format("{:.2f} {}", amount, unit);
  if (amount < 99.95) return fmt::format("{:.1f} {}", amount, unit);
  return fmt::format("{} {}", format_count(std::llround(amount)), unit);
}

}  // namespace

Progress::Progress(Log& log, Clock& clock, ProgressOptions options)
    : log_(log),
      clock_(clock),
      options_(std::move(options)),
      started_(clock.now()),
      shown_(started_) {}

Progress::~Progress() { finish(); }

void Progress::update(int64_t done, const std::string& note) {
  const Nanoseconds now = clock_.now();
  const Milliseconds every = log_.is_terminal() ? options_.terminal_every : options_.plain_every;
  if (now - shown_ < every) return;
  shown_ = now;
  if (log_.is_terminal()) {
    log_.set_status_line(render(done, note));
  } else {
    log_.info(options_.what, render_numbers(done, note));
  }
}

void Progress::finish() { log_.set_status_line(""); }

std::string Progress::render(int64_t done, const std::string& note) const {
  return fmt::format("{}{}{}", options_.what, kGap, render_numbers(done, note));
}

std::string Progress::render_numbers(int64_t done, const std::string& note) const {
  const int64_t total = options_.total;
  const bool in_bytes = options_.unit == "bytes";
  const auto amount = [in_bytes](int64_t count) {
    return in_bytes ? format_bytes(count) : format_count(count);
  };

  std::string line;
  if (total > 0) {
    const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(total);
    line = fmt::format("{:.0f} %{}", std::floor(percent), kGap);
  }
  line += amount(done);
  if (total > 0) line += fmt::format(" of {}", amount(total));
  if (!in_bytes) line += fmt::format(" {}", options_.unit);

  const double elapsed_s = to_seconds(clock_.now() - started_);
  const auto done_here = static_cast<double>(done - options_.start);
  if (elapsed_s > 0 && done_here > 0) {
    const double rate = done_here / elapsed_s;
    line += fmt::format("{}{}/s", kGap, format_amount(rate, options_.unit));
    if (done < total) {
      const double left_s = static_cast<double>(total - done) / rate;
      line += fmt::format("{}{} left", kGap, format_seconds(left_s));
    }
  }
  if (!note.empty()) line += fmt::format("{}{}", kGap, note);
  return line;
}

std::string format_count(int64_t count) {
  std::string digits = fmt::format("{}", count);
  const size_t first_digit = count < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first_digit + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string format_count(int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", format_count(count), thing, count == 1 ? "" : "s");
}

std::string format_bytes(int64_t bytes) {
  constexpr std::string_view kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  auto amount = static_cast<double>(bytes);
  if (std::abs(amount) < 1000) return fmt::format("{} B", bytes);
  size_t unit = 0;
  amount /= 1000;
  // What would be rounded to 1000.0 is 1.0 of the next unit.
  while (std::abs(amount) >= 999.95 && unit + 1 < std::size(kUnits)) {
    amount /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (!(seconds < kCenturySeconds)) return "over 100 years";
  const int64_t s = std::llround(std::max(seconds, 0.0));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  const int64_t min = (s + 30) / 60;
  if (min < 48 * 60) return fmt::format("{} h {:02} min", min / 60, min % 60);
  const int64_t h = (min + 30) / 60;
  return fmt::format("{} d {:02} h", h / 24, h % 24);
}

}  // namespace tern
