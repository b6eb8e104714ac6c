#include <fmt/format.h>

#include <map>
#include <sstream>

#include "core/system_files.h"
#include "ranks/roster.h"

namespace tern {
namespace {

// Named with a difference; more of them would hide the first.
constexpr int kNamedMax = 3;

// "section.key" to its value. What is no assignment is passed over.
std::map<std::string, std::string> values_of(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    const std::string clean = printable_line(line);
    if (clean.starts_with('[')) {
      const size_t begin = clean.find_first_not_of('[');
      section = clean.substr(std::min(begin, clean.size()));
      section = section.substr(0, section.find(']')) + ".";
      continue;
    }
    const size_t equals = clean.find(" = ");
    if (equals == std::string::npos) continue;
    values[section + clean.substr(0, equals)] = clean.substr(equals + 3);
  }
  return values;
}

}  // namespace

std::string settings_difference(const std::string& there, const std::string& here) {
  const auto theirs = values_of(there);
  const auto ours = values_of(here);
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [key, value] : theirs) both[key] = {value, "not set"};
  for (const auto& [key, value] : ours) {
    const auto [entry, is_new] = both.try_emplace(key, "not set", value);
    if (!is_new) entry->second.second = value;
  }
  std::string differences;
  int named = 0;
  for (const auto& [key, values] : both) {
    if (values.first == values.second) continue;
    if (++named > kNamedMax) return differences + " and more";
    differences += fmt::format("{}{} is {} there and {} here", named > 1 ? ", " : "", key,
                               values.first, values.second);
  }
  return differences;
}

}  // namespace tern
