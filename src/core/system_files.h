// The small text files in which Linux describes itself, and what its control groups grant.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tern {

// The file's beginning, up to 64 KiB: enough for every file read here, and a bound on those that
// somebody else made. Empty if it cannot be read.
std::string read_system_file(const std::filesystem::path& path);

// The first line without blanks around it, as printable ASCII: other bytes become '?'.
std::string printable_line(std::string_view text);

// A whole number that is all of the text, blanks around it aside.
std::optional<int64_t> parse_whole_number(std::string_view text);

// 0: no limit.
struct CgroupLimits {
  double cores = 0;
  int64_t memory_bytes = 0;
};

// The tightest limit on this process's cgroup (/proc/self/cgroup) and those above it, of version 2
// and version 1, whichever the machine has.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root);

}  // namespace tern
