#include "storage/object_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tern {
namespace {

constexpr size_t kNameBytesMax = 900;  // S3 and GCS allow 1024
constexpr size_t kPartBytesMax = 255;  // what every Linux file system allows

// Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) {
  size_t at = 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  while (at < text.size()) {
    const unsigned char first = byte(at);
    size_t more = 0;
    unsigned char second_min = 0x80;
    unsigned char second_max = 0xBF;
    if (first >= 0xC2 && first <= 0xDF) more = 1;
    if (first >= 0xE0 && first <= 0xEF) more = 2;
    if (first >= 0xF0 && first <= 0xF4) more = 3;
    if (first >= 0x80 && more == 0) return false;
    if (first == 0xE0) second_min = 0xA0;
    if (first == 0xED) second_max = 0x9F;
    if (first == 0xF0) second_min = 0x90;
    if (first == 0xF4) second_max = 0x8F;
    if (at + more >= text.size()) return false;
    for (size_t i = 1; i <= more; ++i) {
      const unsigned char min = i == 1 ? second_min : 0x80;
      const unsigned char max = i == 1 ? second_max : 0xBF;
      if (byte(at + i) < min || byte(at + i) > max) return false;
    }
    at += 1 + more;
  }
  return true;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// Why one part of a name is refused; empty if it is not.
std::string problem_of_part(std::string_view part) {
  if (part.empty()) return "it has an empty part (a '/' at an end, or two in a row)";
  if (part == "." || part == "..") return fmt::format("it has the part '{}'", part);
  if (part.size() > kPartBytesMax) {
    return fmt::format("it has a part of {} bytes; at most {} fit", part.size(), kPartBytesMax);
  }
  return {};
}

std::string problem_of(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > kNameBytesMax) {
    return fmt::format("it has {} bytes; at most {} fit", name.size(), kNameBytesMax);
  }
  if (std::any_of(name.begin(), name.end(), is_control)) return "it has a control character";
  if (!is_utf8(name)) return "it is not UTF-8";
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (std::string problem = problem_of_part(name.substr(begin, end - begin)); !problem.empty()) {
      return problem;
    }
    begin = end + 1;
  }
  return {};
}

// A refused name may hold anything, so it is shown cut short and without control characters.
std::string printable(std::string_view name) {
  std::string shown(name.substr(0, 60));
  for (char& c : shown) {
    if (is_control(c) || static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return name.size() > shown.size() ? shown + "..." : shown;
}

}  // namespace

Status check_object_name(const std::string& name) {
  const std::string problem = problem_of(name);
  if (problem.empty()) return {};
  return fail(Code::invalid, fmt::format("object name '{}' is refused: {}; use a name like "
                                         "'checkpoints/00000012'",
                                         printable(name), problem));
}

Status check_object_range(const std::string& name, int64_t offset, int64_t length,
                          int64_t size_bytes) {
  if (offset >= 0 && length >= 0 && offset <= size_bytes) return {};
  return fail(Code::invalid,
              fmt::format("range of {} bytes at {} is outside '{}', which has {} bytes; ask for a "
                          "range that begins inside it",
                          length, offset, printable(name), size_bytes));
}

Result<int64_t> ObjectStore::get_range_to(const std::string& name, int64_t offset, int64_t length,
                                          const RangeSink& sink) {
  ASSIGN_OR_RETURN(const Bytes bytes, get_range(name, offset, length));
  if (!bytes.empty()) RETURN_IF_ERROR(sink(0, bytes));
  return static_cast<int64_t>(bytes.size());
}

std::vector<Result<Bytes>> ObjectStore::get_ranges(std::span<const ObjectRange> ranges) {
  std::vector<Result<Bytes>> all;
  all.reserve(ranges.size());
  for (const ObjectRange& range : ranges) {
    all.push_back(get_range(range.name, range.offset, range.length));
  }
  return all;
}

Status ObjectStore::remove_all(std::span<const std::string> names) {
  Status first;
  for (const std::string& name : names) {
    const Status removed = remove(name);
    if (first && !removed) first = removed;
  }
  return first;
}

}  // namespace tern
