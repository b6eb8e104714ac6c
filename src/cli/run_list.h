// What `tern ls` shows of the runs in a folder, and what `tern rm` asks about them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cloud/open_store.h"
#include "core/result.h"
#include "storage/file_door.h"
#include "storage/object_store.h"
#include "train/run_config.h"

namespace tern {

// `tern rm` moves a run to NAME.removed.N before it deletes: what a kill leaves is called that.
inline constexpr std::string_view kRemovedMark = ".removed";

struct ListedRun {
  std::string name;     // the folder's
  std::string status;   // as in reports; or "damaged", "unreadable", "empty", "half removed"
  std::string problem;  // empty, or why there is no more to say, and what to try
  int64_t step = 0;
  int64_t total_steps = 0;
  std::optional<double> top1;      // of the last evaluation, 0 to 1
  int64_t bytes = 0;               // of all files
  std::optional<int64_t> last_ms;  // when it last wrote a record
};

// Does the folder hold a run, surely enough to delete it? A ledger or a record of a sequence says
// so; a run.toml may be somebody's run file, and a folder of checkpoints another program's.
bool is_run_folder(const std::filesystem::path& folder);

// The names of the runs in `folder`, sorted, and of folders that may be runs but cannot be looked
// into; names that no line can hold are left out. Reads nothing of the runs. Nothing if the folder
// does not exist; permission_denied if it cannot be listed.
Result<std::vector<std::string>> run_names(const std::filesystem::path& folder);

// One run, as far as it can be read: what is wrong with it is told in it.
ListedRun read_listed_run(const std::filesystem::path& folder, FileDoor& door);
// The same of a run in any store.
ListedRun read_listed_run(ObjectStore& store, std::string name, int64_t bytes);

// The runs below the address of a bucket, by name; or the one that is there itself. Reads all of
// them: a listing, and a few objects of each.
Result<std::vector<ListedRun>> read_bucket_runs(CloudDoor& door, const StoreAddress& address);

// The options that the run in this folder was last trained with; the default where its copy of them
// cannot be read.
RunConfig recorded_options(ObjectStore& run);

// A table for people; `now_ms` is what "ago" counts from.
std::string format_run_list(const std::vector<ListedRun>& runs, int64_t now_ms);
// An array of objects. A top1 or last_ms that is not known is null.
nlohmann::json run_list_json(const std::vector<ListedRun>& runs);

// Rows as text, in columns two spaces apart; `alignment` has a letter for each, 'l' or 'r'. The
// last cell of a row that has fewer cells may be of any length: it widens no column.
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         std::string_view alignment);

}  // namespace tern
