// --fresh: starting anew beside an old run.
#pragma once

#include <filesystem>
#include <optional>

#include "core/clock.h"
#include "core/result.h"
#include "storage/file_door.h"
#include "storage/sequence.h"

namespace tern {

// Moves what is in the run folder to the first free of FOLDER.1, FOLDER.2, ... and says where.
// Nothing if the folder does not exist or is empty. The run is taken first, by the same rules as
// for training, so that nobody's run is moved away under them.
Result<std::optional<std::filesystem::path>> set_old_run_aside(const std::filesystem::path& folder,
                                                               FileDoor& door, Clock& clock,
                                                               const Holder& me,
                                                               const LeaseOptions& lease);

}  // namespace tern
