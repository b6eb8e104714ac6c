// Shell completion, generated from the table of commands.
#pragma once

#include <string>

namespace tern {

// Both complete commands, flags, recipes, options, and the runs in runs/; they ask the `tern` that
// is being typed for names. What runs and files are called is never executed.
std::string bash_completion();
std::string zsh_completion();

}  // namespace tern
