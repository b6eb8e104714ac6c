// Files that a program was writing when it was killed: they must be neither kept nor read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "program/folder_scan.h"

namespace tern {

inline constexpr char kSetAsideFolder[] = "set-aside";

// Moves those of the folder that may be half to that one in the work folder, in place of what
// lies there under the same names: files that are not as they are in `kept` and were last written
// within two seconds of the end, but for those that got their name, or their folder its own, after
// that, and those that a program still writes. Returns their paths. Safe from any process of the
// machine.
std::vector<std::string> set_torn_aside(const std::filesystem::path& folder,
                                        const std::filesystem::path& work, const FolderScan& kept,
                                        int64_t ended_unix_ms);

// Those that were moved and have not been forgotten since.
std::vector<std::string> list_set_aside(const std::filesystem::path& work);
// They stay where they are.
void forget_set_aside(const std::filesystem::path& work);

}  // namespace tern
