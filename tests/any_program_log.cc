#include "any_program_log.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace tern {

std::vector<std::string> any_program(int64_t steps, const std::filesystem::path& log) {
  // It is none of PyTorch's: it listens itself.
  return {"--leave-port-free",   "--",        "python3", TERN_SOURCE_DIR "/tests/any_program.py",
          std::to_string(steps), log.string()};
}

std::vector<ProgramStep> steps_of(const std::filesystem::path& log, int64_t rank) {
  std::vector<ProgramStep> all;
  std::ifstream file(log / std::to_string(rank));
  for (std::string text; std::getline(file, text) && !file.eof();) {
    ProgramStep line;
    std::istringstream(text) >> line.attempt >> line.rank >> line.step >> line.pid;
    all.push_back(line);
  }
  return all;
}

std::optional<ProgramStep> find_step(const std::filesystem::path& log, int64_t attempt,
                                     int64_t rank, int64_t step) {
  for (const ProgramStep& line : steps_of(log, rank)) {
    if (line.attempt == attempt && line.step >= step) return line;
  }
  return std::nullopt;
}

int64_t step_of_both(const std::filesystem::path& log) {
  int64_t least = INT64_MAX;
  for (const int64_t rank : {0, 1}) {
    const std::vector<ProgramStep> steps = steps_of(log, rank);
    least = std::min(least, steps.empty() ? 0 : steps.back().step);
  }
  return least;
}

}  // namespace tern
