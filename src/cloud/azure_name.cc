#include "cloud/azure_name.h"

namespace tern {
namespace {

// The length of "%5C", "%255C", "%25255C", ... at the beginning of `text`; 0 if it begins
// otherwise.
size_t mark_at(std::string_view text) {
  if (!text.starts_with('%')) return 0;
  size_t at = 1;
  while (text.substr(at).starts_with("25")) at += 2;
  return text.substr(at).starts_with("5C") ? at + 2 : 0;
}

}  // namespace

std::string to_azure_name(std::string_view name) {
  std::string result;
  result.reserve(name.size());
  while (!name.empty()) {
    const size_t mark = mark_at(name);
    if (mark > 0) {
      result += "%25";
      result += name.substr(1, mark - 1);
    } else if (name[0] == '\\') {
      result += "%5C";
    } else {
      result += name[0];
    }
    name.remove_prefix(mark > 0 ? mark : 1);
  }
  return result;
}

std::string from_azure_name(std::string_view name) {
  std::string result;
  result.reserve(name.size());
  while (!name.empty()) {
    const size_t mark = mark_at(name);
    if (mark == 3) {
      result += '\\';
    } else if (mark > 3) {
      result += '%';
      result += name.substr(3, mark - 3);
    } else {
      result += name[0];
    }
    name.remove_prefix(mark > 0 ? mark : 1);
  }
  return result;
}

std::string to_azure_prefix(std::string_view prefix) {
  // It may end within a character, which no request can hold,
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) >= 0x80) {
    prefix.remove_suffix(1);
  }
  // or within what would become a mark.
  const size_t percent = prefix.find_last_of('%');
  if (percent != std::string_view::npos && mark_at(prefix.substr(percent)) == 0 &&
      prefix.find_first_not_of("25", percent + 1) == std::string_view::npos) {
    prefix = prefix.substr(0, percent);
  }
  return to_azure_name(prefix);
}

}  // namespace tern
