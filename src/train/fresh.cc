#include "train/fresh.h"

#include <fmt/format.h>

#include "storage/disk_store.h"
#include "storage/ledger.h"
#include "storage/prefix_store.h"
#include "train/resume.h"
#include "train/run_config.h"

namespace tern {
namespace {

constexpr int kOldRunsMax = 100'000;
constexpr char kCheckpoints[] = "checkpoints";

bool holds_a_run(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {kRunFileObject, kLedgerObject, kCheckpoints}) {
    if (std::filesystem::exists(folder / name, ignored)) return true;
  }
  return false;
}

// Takes the run in `folder`; the same process may do it again, wherever the folder has gone.
Result<std::unique_ptr<Sequence>> take(PrefixStore& checkpoints, Clock& clock, Log& log,
                                       const Holder& me, const LeaseOptions& lease,
                                       std::stop_token stop) {
  Sequence::Setup setup{.store = &checkpoints, .clock = &clock, .me = me, .lease = lease};
  setup.on_wait = log_waiting_for_holder(log);
  return Sequence::take(std::move(setup), std::move(stop));
}

Result<std::filesystem::path> rename_to_free_number(const std::filesystem::path& folder,
                                                    std::string_view mark) {
  std::error_code error;
  for (int number = 1; number <= kOldRunsMax; ++number) {
    std::filesystem::path aside = folder;
    aside += fmt::format("{}.{}", mark, number);
    // A link that leads nowhere takes the name too.
    if (std::filesystem::exists(std::filesystem::symlink_status(aside, error))) continue;
    std::filesystem::rename(folder, aside, error);
    if (!error) return aside;
    return fail(Code::permission_denied,
                fmt::format("cannot move {} to {}: {}; see that the folder it is in can be "
                            "written, or move it yourself",
                            folder.string(), aside.string(), error.message()));
  }
  return fail(Code::exhausted,
              fmt::format("{} has too many old runs beside it; remove some", folder.string()));
}

}  // namespace

bool has_aside_mark(std::string_view name, std::string_view mark) {
  const size_t at = name.rfind(mark);
  if (mark.empty() || at == name.npos) return false;
  const std::string_view number = name.substr(at + mark.size());
  return number.size() > 1 && number[0] == '.' &&
         number.find_first_not_of("0123456789", 1) == number.npos;
}

Result<std::optional<std::filesystem::path>> set_old_run_aside(
    const std::filesystem::path& folder, FileDoor& door, Clock& clock, Log& log, const Holder& me,
    const LeaseOptions& lease, const NoticeBoard& board, std::string_view mark) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error) || std::filesystem::is_empty(folder, error)) {
    return std::optional<std::filesystem::path>();
  }
  if (!holds_a_run(folder)) {
    return fail(Code::failed_precondition,
                fmt::format("{} holds no run, so --fresh does not touch it; use another --run DIR",
                            folder.string()));
  }
  const std::filesystem::path plain = folder.has_filename() ? folder : folder.parent_path();
  const bool stays = has_aside_mark(plain.filename().string(), mark);
  std::filesystem::path aside;
  {
    ASSIGN_OR_RETURN(const auto store, DiskStore::open(plain, door));
    PrefixStore checkpoints(*store, kCheckpoints);
    ASSIGN_OR_RETURN(const auto held, take(checkpoints, clock, log, me, lease, board.stop_token()));
    if (stays) {
      RETURN_IF_ERROR(held->release());
      return std::optional<std::filesystem::path>(plain);
    }
    // Renamed while it is held, so that nobody can take it in between; given back where it is then.
    const auto renamed = rename_to_free_number(plain, mark);
    if (!renamed) {
      held->release().permit_unchecked_error();
      return renamed.error();
    }
    aside = *renamed;
  }
  ASSIGN_OR_RETURN(const auto store, DiskStore::open(aside, door));
  PrefixStore checkpoints(*store, kCheckpoints);
  ASSIGN_OR_RETURN(const auto held, take(checkpoints, clock, log, me, lease, std::stop_token()));
  RETURN_IF_ERROR(held->release());
  return std::optional<std::filesystem::path>(aside);
}

}  // namespace tern
