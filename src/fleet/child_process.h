// A program that is started, given its input, heard to its end, and ended if that does not come.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"

namespace tern {

struct ChildSetup {
  std::vector<std::string> command;   // the first is looked for in PATH
  Bytes input;                        // its stdin
  std::filesystem::path input_file;   // its stdin instead, if one is named
  size_t output_bytes_max = 1 << 20;  // kept of stdout, and of stderr; what comes after is dropped
  Milliseconds limit{0};              // ended after so long; 0: never
};

struct ChildAnswer {
  int exit_code = 0;  // minus the signal, if one ended it
  Bytes out;
  Bytes err;
  bool is_cut = false;  // it said more than was kept
};

// Runs a program to its end. `stop` and the limit end it (SIGTERM, after 2 s SIGKILL) with all that
// is in its process group; the error is `cancelled` or `deadline_exceeded`. not_found if there is
// no such program. It does not outlive the calling thread. Processes that it leaves in the
// background, such as ssh's shared connections, are not waited for.
Result<ChildAnswer> run_child(const ChildSetup& setup, Clock& clock, std::stop_token stop);

}  // namespace tern
