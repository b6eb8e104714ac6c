// What tests/any_program.py has written down of its steps.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tern {

struct ProgramStep {
  int64_t attempt = 0;
  int64_t rank = 0;
  int64_t step = 0;
  pid_t pid = 0;
};

// The last words of a launch of the program for so many steps, with its log in this folder.
std::vector<std::string> any_program(int64_t steps, const std::filesystem::path& log);
// The steps of one rank, in their order. None of a line that is still being written.
std::vector<ProgramStep> steps_of(const std::filesystem::path& log, int64_t rank);
// The first of a rank that has come to a step in an attempt.
std::optional<ProgramStep> find_step(const std::filesystem::path& log, int64_t attempt,
                                     int64_t rank, int64_t step);
// The last step of two ranks that both have done; 0: none.
int64_t step_of_both(const std::filesystem::path& log);

}  // namespace tern
