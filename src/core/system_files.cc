#include "core/system_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileBytesMax = 64 << 10;
// Version 1 writes "no limit" as the largest number of whole pages.
constexpr int64_t kNoMemoryLimit = int64_t{1} << 60;
// Version 1 has about 13 controllers, and groups nest a few deep. Without bounds a damaged file
// would make us look for thousands of folders.
constexpr int kHierarchiesMax = 32;
constexpr size_t kDepthMax = 32;
constexpr size_t kGroupLineMax = 4096;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// `lower` replaces `limit` if it is a limit and the tighter one.
template <typename Number>
void tighten(Number& limit, Number lower) {
  if (lower > 0 && (limit == 0 || lower < limit)) limit = lower;
}

// "150000 100000": microseconds of CPU time in a period of as many; "max 100000" is no limit.
double cores_of(std::string_view quota, std::string_view period) {
  const std::optional<int64_t> granted = parse_whole_number(quota);
  const std::optional<int64_t> of = parse_whole_number(period);
  if (!granted || !of || *granted <= 0 || *of <= 0) return 0;
  return static_cast<double>(*granted) / static_cast<double>(*of);
}

int64_t memory_of(std::string_view text) {
  const std::optional<int64_t> bytes = parse_whole_number(text);
  return bytes && *bytes > 0 && *bytes < kNoMemoryLimit ? *bytes : 0;
}

void tighten_by_version_2(const fs::path& group, CgroupLimits& limits) {
  const std::string cpu = printable_line(read_system_file(group / "cpu.max"));
  const size_t blank = cpu.find(' ');
  if (blank != std::string::npos) {
    tighten(limits.cores, cores_of(cpu.substr(0, blank), cpu.substr(blank + 1)));
  }
  tighten(limits.memory_bytes, memory_of(read_system_file(group / "memory.max")));
}

void tighten_by_version_1(const fs::path& group, CgroupLimits& limits) {
  tighten(limits.cores, cores_of(read_system_file(group / "cpu.cfs_quota_us"),
                                 read_system_file(group / "cpu.cfs_period_us")));
  tighten(limits.memory_bytes, memory_of(read_system_file(group / "memory.limit_in_bytes")));
}

// `mount` and every folder from there down to the group: a limit holds for all below it. Folders
// that are not there are passed over: a container sees its own group as the mount's root, whatever
// /proc calls it.
std::vector<fs::path> groups_from(const fs::path& mount, const std::string& group) {
  std::vector<fs::path> groups = {mount};
  for (const fs::path& part : fs::path(group).relative_path()) {
    // A group outside of our namespace is shown with "..", which is not below the mount.
    if (part == ".." || groups.size() > kDepthMax) break;
    groups.push_back(groups.back() / part);
  }
  return groups;
}

}  // namespace

std::string read_system_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return "";  // which opens, and then cannot be read
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

std::string printable_line(std::string_view text) {
  std::string line(trim(text.substr(0, text.find('\n'))));
  std::ranges::replace_if(line, [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

std::optional<int64_t> parse_whole_number(std::string_view text) {
  text = trim(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const fs::path mounts = root / "sys/fs/cgroup";
  std::istringstream lines(read_system_file(root / "proc/self/cgroup"));
  // "0::/user.slice" is version 2, "4:cpu,cpuacct:/job" version 1.
  std::string line;
  for (int i = 0; i < kHierarchiesMax && std::getline(lines, line); ++i) {
    if (line.size() > kGroupLineMax) continue;
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const fs::path& mount : {mounts, mounts / "unified"}) {
        for (const fs::path& g : groups_from(mount, group)) tighten_by_version_2(g, limits);
      }
      continue;
    }
    // Mounted under the whole list, or under the one name of it that has limits.
    std::set<std::string> names = {controllers};
    std::istringstream each(controllers);
    for (std::string name; std::getline(each, name, ',');) {
      if (name == "cpu" || name == "memory") names.insert(name);
    }
    for (const std::string& name : names) {
      for (const fs::path& g : groups_from(mounts / name, group)) tighten_by_version_1(g, limits);
    }
  }
  if (limits.cores == 0 && limits.memory_bytes == 0) tighten_by_version_2(mounts, limits);
  return limits;
}

}  // namespace tern
