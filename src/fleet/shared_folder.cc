#include "fleet/shared_folder.h"

#include "fleet/private_file.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr Nanoseconds kLate = std::chrono::seconds(2);
constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(50);

// REQUIRES: an absolute path; the root is above itself.
fs::path above(fs::path folder, int64_t levels) {
  folder = folder.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "a/" is a
  for (int64_t i = 0; i < levels; ++i) folder = folder.parent_path();
  return folder;
}

fs::path mark_file(const fs::path& folder, int64_t levels, const std::string& token) {
  return above(folder, levels) / (".tern-shared-" + token);
}

}  // namespace

Result<int64_t> leave_mark(const fs::path& folder, const std::string& token) {
  int64_t levels = 0;
  std::error_code error;
  while (!fs::is_directory(above(folder, levels), error) && above(folder, levels).has_filename()) {
    ++levels;
  }
  RETURN_IF_ERROR(create_private_file(mark_file(folder, levels, token), "tern\n"));
  return levels;
}

bool sees_mark(const fs::path& folder, int64_t levels, const std::string& token, Clock& clock) {
  const Nanoseconds deadline = clock.now() + kLate;
  std::error_code error;
  while (!fs::exists(mark_file(folder, levels, token), error)) {
    if (clock.now() >= deadline) return false;
    clock.wait_for(kLookEvery, {});
  }
  return true;
}

void clear_mark(const fs::path& folder, int64_t levels, const std::string& token) {
  std::error_code ignored;
  fs::remove(mark_file(folder, levels, token), ignored);
}

}  // namespace tern
