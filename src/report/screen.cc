#include "report/screen.h"

#include <fmt/format.h>

#include <algorithm>

namespace tern {

namespace {

// Code points, near enough to columns for the names and messages we print.
size_t columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

// Messages of others may hold newlines, and bytes that move a terminal's cursor.
std::string one_line(std::string_view text) {
  std::string line;
  for (char byte : text) {
    const bool is_control = static_cast<unsigned char>(byte) < 0x20U || byte == 0x7F;
    line += is_control ? ' ' : byte;
  }
  return line;
}

// Breaks at spaces. What does not fit in `lines_max` lines ends in "...".
std::vector<std::string> wrap(std::string_view text, size_t width, size_t lines_max) {
  const std::string flat = one_line(text);
  std::vector<std::string> lines;
  std::string line;
  size_t at = 0;
  while (at < flat.size()) {
    const size_t space = std::min(flat.find(' ', at), flat.size());
    const std::string word = cut(std::string_view(flat).substr(at, space - at), width);
    at = space + 1;
    if (word.empty()) continue;
    if (!line.empty() && columns(line) + 1 + columns(word) > width) {
      if (lines.size() + 1 == lines_max) {
        lines.push_back(cut(line + " " + word + " ...", width));
        return lines;
      }
      lines.push_back(std::move(line));
      line.clear();
    }
    line += line.empty() ? word : " " + word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

std::string cut(std::string_view text, size_t width) {
  if (columns(text) <= width) return std::string(text);
  return fmt::format("{:.{}}...", text, width - 3);
}

void Screen::line(std::string_view text) { text_ += cut(one_line(text), kScreenColumns) + "\n"; }

void Screen::row(std::string_view label, std::string_view value, size_t lines_max) {
  for (const std::string& part : wrap(value, kScreenColumns - kLabelColumns, lines_max)) {
    line(fmt::format("{:<{}}{}", label, kLabelColumns, part));
    label = "";
  }
}

}  // namespace tern
