#include "train/fresh.h"

#include <fmt/format.h>

#include "storage/disk_store.h"
#include "storage/prefix_store.h"

namespace tern {
namespace {

constexpr int kOldRunsMax = 100'000;

}  // namespace

Result<std::optional<std::filesystem::path>> set_old_run_aside(const std::filesystem::path& folder,
                                                               FileDoor& door, Clock& clock,
                                                               const Holder& me,
                                                               const LeaseOptions& lease) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error) || std::filesystem::is_empty(folder, error)) {
    return std::optional<std::filesystem::path>();
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskStore> store, DiskStore::open(folder, door));
  PrefixStore checkpoints(*store, "checkpoints/");
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Sequence> old_run,
      Sequence::take({.store = &checkpoints, .clock = &clock, .me = me, .lease = lease},
                     std::stop_token()));
  RETURN_IF_ERROR(old_run->release());
  const std::filesystem::path plain = folder.has_filename() ? folder : folder.parent_path();
  for (int number = 1; number <= kOldRunsMax; ++number) {
    std::filesystem::path aside = plain;
    aside += fmt::format(".{}", number);
    if (std::filesystem::exists(aside, error)) continue;
    std::filesystem::rename(plain, aside, error);
    if (error) {
      return fail(
          Code::permission_denied,
          fmt::format("cannot move {} to {}: {}; move it yourself, or use another --run DIR",
                      plain.string(), aside.string(), error.message()));
    }
    return std::optional<std::filesystem::path>(aside);
  }
  return fail(Code::exhausted,
              fmt::format("{} has too many old runs beside it; remove some", plain.string()));
}

}  // namespace tern
