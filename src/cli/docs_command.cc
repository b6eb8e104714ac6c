#include <fmt/format.h>

#include "cli/command.h"
#include "train/exit_codes.h"

namespace tern {

// Hidden: for those who work on tern.
Result<int> docs_command(const Surroundings&, const Arguments& arguments) {
  if (arguments != Arguments{"configuration"}) {
    return fail(Code::invalid,
                "the only page that is made is `tern docs configuration`; redirect it to "
                "docs/configuration.md");
  }
  fmt::print("{}", configuration_page());
  return kExitDone;
}

}  // namespace tern
