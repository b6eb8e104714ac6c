#include "core/stdio.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace tern {

void write_stderr(std::string_view text) {
  // Nothing can be said about a stderr that cannot be written to.
  [[maybe_unused]] const size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
}

void open_missing_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is the missing one, as those below it are open by now.
    if (open("/dev/null", O_RDWR) < 0) return;
  }
}

}  // namespace tern
