// Text for a terminal: rows of "label   value", never wider than the screen, whatever the values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern {

inline constexpr size_t kScreenColumns = 100;
inline constexpr size_t kLabelColumns = 15;

// At most `width` columns; what is cut off becomes "...". REQUIRES: width >= 3.
std::string cut(std::string_view text, size_t width);

// Collects lines. Newlines, and bytes that would move a terminal's cursor, become spaces.
class Screen {
 public:
  void line(std::string_view text);
  void blank() { text_ += "\n"; }

  // Broken at spaces into at most `lines_max` lines. Nothing is shown for an empty value.
  void row(std::string_view label, std::string_view value, size_t lines_max = 1);

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace tern
