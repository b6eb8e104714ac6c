// `tern`: the one program a user types. It links no LibTorch and answers in milliseconds; what
// computes is another program, which train_command.cc starts.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "cli/command_table.h"
#include "core/options.h"
#include "core/stdio.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr char kAnswerNotWritten[] = "tern: could not write the answer; is the disk full?\n";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// tern/ below the folder that the variable names, else below ~/`usual`; empty without a home.
std::filesystem::path own_folder(const char* variable, const char* usual) {
  if (const std::string given = environment(variable); !given.empty()) {
    return std::filesystem::path(given) / "tern";
  }
  const std::string home = environment("HOME");
  return home.empty() ? std::filesystem::path() : std::filesystem::path(home) / usual / "tern";
}

Result<Surroundings> look_around() {
  Surroundings around;
  std::error_code error;
  around.executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return fail(Code::unavailable,
                "cannot read /proc/self/exe, which tells where tern is; mount "
                "/proc and try again");
  }
  around.recipes = environment("TERN_RECIPES");
  around.libtorch = environment("TERN_LIBTORCH");
  around.library_path = environment("LD_LIBRARY_PATH");
  around.certificates = environment("CURL_CA_BUNDLE");
  if (around.certificates.empty()) around.certificates = environment("SSL_CERT_FILE");
  around.cache = own_folder("XDG_CACHE_HOME", ".cache");
  around.state = own_folder("XDG_STATE_HOME", ".local/state");
  around.runtime = environment("XDG_RUNTIME_DIR");
  around.ssh_config = environment("TERN_SSH_CONFIG");
  around.cloud.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  around.cloud.home = environment("HOME");
  around.cloud.certificates = around.certificates;
  around.cloud.tell = [](const std::string& sentence) {
    write_stderr(fmt::format("tern: {}\n", sentence));
  };
  return around;
}

Error unknown_command(const std::string& name) {
  std::vector<std::string> names = {"--help", "--version"};
  for (const Command& command : command_table()) {
    if (!command.hidden) names.emplace_back(command.name);
  }
  const std::optional<std::string> near = nearest_name(name, names);
  return fail(
      Code::invalid,
      fmt::format("unknown {} {}; {}see `tern --help`", name.starts_with('-') ? "flag" : "command",
                  name, near ? fmt::format("did you mean `tern {}`? ", *near) : ""));
}

Result<int> start_command(Arguments arguments) {
  std::string name = arguments.empty() ? "--help" : arguments.front();
  if (name == "help" && arguments.size() > 1) {  // `tern help train` is `tern train --help`
    name = arguments[1];
    arguments = {name, "--help"};
  }
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", kTernHelp);
    return kExitDone;
  }
  if (name == "--version") {
    fmt::print("tern {}\n", TERN_VERSION);
    return kExitDone;
  }
  for (const Command& command : command_table()) {
    if (command.name != name) continue;
    ASSIGN_OR_RETURN(const Surroundings around, look_around());
    return command.run(around, {arguments.begin() + 1, arguments.end()});
  }
  return unknown_command(name);
}

int run_and_explain(int argc, char** argv) {
  const Result<int> exit_code = start_command({argv + std::min(argc, 1), argv + argc});
  if (!exit_code) {
    write_stderr(fmt::format("tern: {}\n", exit_code.error().message));
    return exit_code_of(exit_code.error().code);
  }
  if (std::fflush(stdout) != 0) {
    write_stderr(kAnswerNotWritten);
    return kExitUnavailable;
  }
  return *exit_code;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  tern::open_missing_standard_streams();
  try {
    return tern::run_and_explain(argc, argv);
  } catch (const std::system_error&) {
    // What fmt throws when stdout does not take what was printed.
    tern::write_stderr(tern::kAnswerNotWritten);
    return tern::kExitUnavailable;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tern: this is a bug in tern: %s\n", error.what());
    return tern::kExitInternal;
  }
}
