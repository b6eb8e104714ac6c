// Setting a run aside: for --fresh, which starts anew beside it, and for `tern rm`.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "storage/file_door.h"
#include "storage/sequence.h"

namespace tern {

// Was this folder's name given by set_old_run_aside() with this mark? That is NAME<mark>.<number>.
bool has_aside_mark(std::string_view name, std::string_view mark);

// Moves the run in `folder` to the first free of FOLDER.1, FOLDER.2, ... and says where; with a
// `mark` of ".x" to FOLDER.x.1 and so on, unless that is its name already. Nothing if the folder
// does not exist or is empty; failed_precondition if it holds something else than a run. The run is
// taken first, by the same rules as for training, so that nobody's run is moved away under them; a
// notice ends the wait for its holder, which is then `cancelled`. If it cannot be moved it is given
// back, and stays where it is.
Result<std::optional<std::filesystem::path>> set_old_run_aside(
    const std::filesystem::path& folder, FileDoor& door, Clock& clock, Log& log, const Holder& me,
    const LeaseOptions& lease, const NoticeBoard& board, std::string_view mark = "");

}  // namespace tern
