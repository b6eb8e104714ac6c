#include "import/member_path.h"

#include <fmt/format.h>

#include <algorithm>

namespace tern {
namespace {

// Linux's PATH_MAX.
constexpr size_t kPathBytesMax = 4096;

Error refuse(std::string_view path, const char* why) {
  return fail(Code::corrupt,
              fmt::format("the name '{}' {}; such an archive is not imported: make it again from "
                          "inside the data's folder",
                          printable_path(path), why));
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; }

// Of the UTF-8 character that `text` begins with; 0: it is none. REQUIRES: not empty.
size_t utf8_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  // Other beginnings are of no character, or of a longer way to write one.
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_longer_way = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool is_outside = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  if (is_longer_way || is_outside) return 0;
  const std::string_view rest = text.substr(1, bytes - 1);
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::all_of(rest.begin(), rest.end(), follows) ? bytes : 0;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

Result<std::string> clean_member_path(std::string_view path) {
  if (path.size() > kPathBytesMax) return refuse(path, "is too long");
  if (path.starts_with('/')) return refuse(path, "is absolute");
  if (has_control_characters(path)) return refuse(path, "has control characters");
  std::string clean;
  for (std::string_view rest = path; !rest.empty(); rest = after_first_part(rest)) {
    const std::string_view part = first_part(rest);
    if (part == "..") return refuse(path, "has '..'");
    if (part.empty() || part == ".") continue;
    if (!clean.empty()) clean += '/';
    clean += part;
  }
  if (clean.empty()) return refuse(path, "is empty");
  return clean;
}

std::string printable_path(std::string_view path) {
  constexpr size_t kShown = 200;
  std::string text(path.substr(0, kShown));
  for (char& c : text) {
    if (is_control(c) || static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return path.size() > kShown ? text + "..." : text;
}

bool has_control_characters(std::string_view path) {
  return std::any_of(path.begin(), path.end(), is_control);
}

std::string escaped_path(std::string_view path) {
  std::string text;
  while (!path.empty()) {
    const size_t bytes = utf8_bytes(path);
    if (bytes == 0 || is_control(path[0]) || path[0] == '\\') {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(path[0]));
      path.remove_prefix(1);
    } else {
      text += path.substr(0, bytes);
      path.remove_prefix(bytes);
    }
  }
  return text;
}

bool is_image_name(std::string_view path) {
  const std::string name = lower_case(base_name(path));
  return name.ends_with(".jpg") || name.ends_with(".jpeg") || name.ends_with(".png");
}

bool is_hidden_path(std::string_view path) {
  for (std::string_view rest = path; !rest.empty(); rest = after_first_part(rest)) {
    const std::string_view part = first_part(rest);
    if (part.starts_with('.') || part == "__MACOSX") return true;
  }
  return false;
}

std::string_view first_part(std::string_view path) { return path.substr(0, path.find('/')); }

std::string_view after_first_part(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view folder_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

}  // namespace tern
