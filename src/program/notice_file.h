// The notice as a program reads it: $TERN_NOTICE_FILE.
#pragma once

#include <filesystem>

#include "core/result.h"
#include "preempt/notice.h"

namespace tern {

// {"kind": "preempt" or "stop", "source", "unix_ms", "deadline_unix_ms"}, the last if it is known;
// there whole or not at all.
Status write_notice_file(const std::filesystem::path& file, const Notice& notice);

}  // namespace tern
