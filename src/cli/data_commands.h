// The commands of `tern data`, one file each. command_table.cc is the list of them.
#pragma once

#include "cli/command.h"
#include "core/result.h"

namespace tern {

// As the commands of command.h; what follows `tern data import` and so on.
Result<int> data_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> data_import_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> data_ls_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> data_verify_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> data_show_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> data_bench_command(const Surroundings& surroundings, const Arguments& arguments);

}  // namespace tern
