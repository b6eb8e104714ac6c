#include "fleet/slurm_call.h"

#include <fmt/format.h>

#include "core/system_files.h"
#include "fleet/child_process.h"

namespace tern {
namespace {

// A controller that is busy or away is waited for by the command itself, for about so long.
constexpr Milliseconds kLimit{60'000};

}  // namespace

Result<Bytes> ask_slurm(const std::vector<std::string>& command, Clock& clock,
                        std::stop_token stop) {
  const std::string& program = command.front();
  Result<ChildAnswer> answer = run_child(
      {.command = command, .output_bytes_max = 4 << 20, .limit = kLimit}, clock, std::move(stop));
  if (!answer && answer.error().code == Code::not_found) {
    return fail(Code::failed_precondition,
                fmt::format("there is no {} here; work on a machine of the cluster that has "
                            "Slurm's commands, or install them (slurm-client)",
                            program));
  }
  if (!answer) return answer.error().at(program);
  if (answer->exit_code == 0) return std::move(answer->out);
  // The last line is the cause; what comes before tells of tries.
  std::string said = answer->err;
  while (said.ends_with('\n')) said.pop_back();
  said = printable_line(said.substr(said.find_last_of('\n') + 1));
  const bool is_unknown = said.find("Invalid job id") != std::string::npos;
  return fail(is_unknown ? Code::not_found : Code::unavailable,
              fmt::format("{}: {}; see whether `sinfo` answers", program,
                          said.empty() ? fmt::format("exit code {}", answer->exit_code) : said));
}

}  // namespace tern
