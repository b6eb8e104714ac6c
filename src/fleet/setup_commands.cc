#include "fleet/setup_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "core/hash.h"
#include "core/system_files.h"
#include "fleet/child_process.h"
#include "fleet/private_file.h"
#include "storage/file_door.h"
#include "storage/proc_stat.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(200);
constexpr Nanoseconds kWaitMax = std::chrono::hours(1);
constexpr size_t kMarkBytesMax = 256;

std::string hash_of(const std::vector<std::string>& commands, const std::string& machine) {
  Sha256 hash;
  hash.update_field(machine);
  for (const std::string& command : commands) hash.update_field(command);
  return to_hex(hash.finish());
}

std::string last_words(const fs::path& log) {
  std::ifstream file(log);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!printable_line(line).empty()) last = printable_line(line);
  }
  return last.substr(0, 300);
}

Status run_one(size_t number, const std::string& command, const fs::path& log, const fs::path& home,
               Clock& clock) {
  std::ofstream(log, std::ios::app) << "+ " << printable_line(command) << "\n";
  // The log and the home folder are words of their own, so that nothing has to be quoted.
  const ChildSetup setup{.command = {"/bin/sh", "-c",
                                     "exec >>\"$0\" 2>&1; cd \"$1\" && exec /bin/sh -c \"$2\"",
                                     log.string(), home.string(), command}};
  ASSIGN_OR_RETURN(const ChildAnswer answer, run_child(setup, clock, {}));
  if (answer.exit_code == 0) return {};
  return fail(Code::failed_precondition,
              fmt::format("setup command {} (`{}`) ended with {}: {}; its log is {}", number,
                          printable_line(command).substr(0, 80), answer.exit_code, last_words(log),
                          log.string()));
}

}  // namespace

SetupMachine this_setup_machine() {
  std::array<char, 256> name{};
  // Without a name the boot alone tells machines apart.
  if (gethostname(name.data(), name.size() - 1) != 0) name.front() = '\0';
  return {.name = name.data(), .boot_id = read_boot_id()};
}

Result<SetupResult> run_setup_commands(const std::vector<std::string>& commands,
                                       const fs::path& cache, const fs::path& home,
                                       const SetupMachine& machine, Clock& clock) {
  const fs::path folder = cache / "setup";
  RETURN_IF_ERROR(make_private_folder(folder));
  const std::string hash = hash_of(commands, machine.name);
  const fs::path done = folder / (hash + ".done");
  const fs::path lock_file = folder / (hash + ".lock");
  SetupResult result{.log = folder / (hash + ".log")};
  const FileDescriptor lock(open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open()) return file_error("write", lock_file, errno);
  const Nanoseconds deadline = clock.now() + kWaitMax;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (clock.now() > deadline) {
      return fail(Code::deadline_exceeded,
                  fmt::format("another launch has run the same setup commands for an hour; look at "
                              "{}",
                              result.log.string()));
    }
    clock.wait_for(kLookEvery, {});
  }
  const std::string mark = machine.boot_id + "\n";
  const Result<Bytes> marked = read_private_file(done, kMarkBytesMax);
  if (marked && *marked == mark) return result;
  for (size_t i = 0; i < commands.size(); ++i) {
    RETURN_IF_ERROR(run_one(i + 1, commands[i], result.log, home, clock));
  }
  RETURN_IF_ERROR(write_private_file(done, mark));
  result.ran = true;
  return result;
}

}  // namespace tern
