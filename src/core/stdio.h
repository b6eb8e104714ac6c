// Words for people on stderr, from programs that go on when nobody can hear them.
#pragma once

#include <string_view>

namespace tern {

// Writes `text`; a stderr that is closed, full or no longer read loses it and nothing else. (fmt's
// print throws then.)
void write_stderr(std::string_view text);

// Opens /dev/null in place of a standard stream that the caller closed, so that no file of ours is
// taken for it. Call first thing in main().
void open_missing_standard_streams();

}  // namespace tern
