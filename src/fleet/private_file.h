// Small files that only this user may read, written so that a reader sees the old or the new one.
#pragma once

#include <filesystem>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// Makes the folder and its missing parents, for this user alone (mode 0700).
Status make_private_folder(const std::filesystem::path& folder);

// Replaces the file, or makes it, with mode 0600.
Status write_private_file(const std::filesystem::path& file, BytesView bytes);
// Makes it; already_exists if it is there. Of many callers exactly one succeeds.
Status create_private_file(const std::filesystem::path& file, BytesView bytes);

// not_found if there is no such file; `corrupt` if it is larger than `bytes_max`.
Result<Bytes> read_private_file(const std::filesystem::path& file, size_t bytes_max);

}  // namespace tern
