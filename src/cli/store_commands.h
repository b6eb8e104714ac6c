// The commands of `tern store`, one file each. command_table.cc is the list of them.
#pragma once

#include "cli/command.h"
#include "core/result.h"

namespace tern {

// As the commands of command.h; what follows `tern store ls` and so on.
Result<int> store_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> store_ls_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> store_cp_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> store_cat_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> store_rm_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> store_mb_command(const Surroundings& surroundings, const Arguments& arguments);
Result<int> store_bench_command(const Surroundings& surroundings, const Arguments& arguments);

// Of `tern run`.
Result<int> run_copy_command(const Surroundings& surroundings, const Arguments& arguments);

}  // namespace tern
