#include "cli/find_trainer.h"

#include <fmt/format.h>
#include <unistd.h>

namespace tern {

Result<std::filesystem::path> find_trainer(const std::filesystem::path& executable) {
  const std::filesystem::path folder = executable.parent_path();
  for (const char* place : {"libexec/tern-train", "../libexec/tern-train"}) {
    const std::filesystem::path trainer = (folder / place).lexically_normal();
    if (access(trainer.c_str(), X_OK) == 0) return trainer;
  }
  return fail(Code::not_found,
              fmt::format("{}/libexec/tern-train, the part of tern that trains, is missing; build "
                          "it with `make build`, or unpack the whole bundle again",
                          folder.string()));
}

}  // namespace tern
