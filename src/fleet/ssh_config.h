// The names that an ssh config lists. What it says about them is ssh's to read: `ssh -G NAME`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tern {

struct SshConfigText {
  std::vector<std::string> hosts;     // of Host lines, without patterns, in order
  std::vector<std::string> includes;  // of Include lines, as they are written
};

// `invalid`, with file and line, for quotes that are not closed. Other lines are not looked at.
Result<SshConfigText> parse_ssh_config(std::string_view text, const std::string& source);

// Those of the file and of the files that it includes, each name once. No such file: none.
Result<std::vector<std::string>> ssh_host_names(const std::filesystem::path& config,
                                                const std::filesystem::path& home);

// "gpu-1" matches "gpu-*"; * and ? as in ssh's config.
bool matches_host_pattern(std::string_view name, std::string_view pattern);

}  // namespace tern
