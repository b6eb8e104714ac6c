#include "train/on_event.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <vector>

#include "core/options.h"

namespace tern {
namespace {

constexpr size_t kReasonBytesMax = 1000;
// A process that ends cannot be waited for with a limit, so we look. The first looks are close
// together: most commands take milliseconds.
constexpr Nanoseconds kFirstLook = std::chrono::milliseconds(1);
constexpr Nanoseconds kLookEveryMax = std::chrono::milliseconds(50);

// Ours, with what the command is told in place of variables of the same names.
std::vector<std::string> environment_with(const RunEvent& event) {
  const std::pair<std::string, std::string> told[] = {
      {"TERN_EVENT", std::string(status_name(event.status))},
      {"TERN_RUN", event.run},
      {"TERN_STEP", std::to_string(event.step)},
      {"TERN_STEPS_LOST", std::to_string(event.steps_lost)},
      {"TERN_REASON", one_line(event.reason)},
      {"TERN_EXIT_CODE", std::to_string(event.exit_code)},
  };
  // `tern` put LibTorch in front of the library path and kept what was there: a Python with a
  // LibTorch of its own must not load ours.
  constexpr std::string_view kLibraryPath = "LD_LIBRARY_PATH=";
  constexpr std::string_view kUsersLibraryPath = "TERN_LIBRARY_PATH=";
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (variable.starts_with(kUsersLibraryPath) && variable.size() > kUsersLibraryPath.size()) {
      variables.emplace_back(std::string(kLibraryPath) +
                             std::string(variable.substr(kUsersLibraryPath.size())));
    }
    const bool is_replaced =
        variable.starts_with(kLibraryPath) || variable.starts_with(kUsersLibraryPath) ||
        std::ranges::any_of(
            told, [&](const auto& ours) { return variable.starts_with(ours.first + "="); });
    if (!is_replaced) variables.emplace_back(variable);
  }
  for (const auto& [name, value] : told) variables.push_back(name + "=" + value);
  return variables;
}

// How the child is to be born. Its attributes own memory of libc's.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes_, 0);  // one of its own
    // tern-train blocks the signals that it waits for, and ignores SIGPIPE and SIGXFSZ; all would
    // be inherited and make a command that cannot be ended.
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
  }
  ~SpawnPlan() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Result<pid_t> spawn_shell(std::string command, std::vector<std::string> environment) const {
    char shell[] = "sh";
    char option[] = "-c";
    char* const arguments[] = {shell, option, command.data(), nullptr};
    std::vector<char*> variables;
    for (std::string& variable : environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
    pid_t pid = -1;
    const int failed =
        posix_spawn(&pid, "/bin/sh", &files_, &attributes_, arguments, variables.data());
    if (failed == 0) return pid;
    return fail(Code::unavailable,
                fmt::format("/bin/sh cannot be started: {}", std::strerror(failed)));
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

// Looks until `is_over` or the limit has passed; true if it is over.
template <typename IsOver>
bool wait_at_most(Nanoseconds limit, Clock& clock, IsOver is_over) {
  const Nanoseconds began = clock.now();
  Nanoseconds pause = kFirstLook;
  while (!is_over()) {
    const Nanoseconds left = limit - (clock.now() - began);
    if (left <= Nanoseconds(0)) return false;
    clock.wait_for(std::min(pause, left), {});
    pause = std::min(2 * pause, kLookEveryMax);
  }
  return true;
}

// A started command and the process group that it leads.
class Command {
 public:
  explicit Command(pid_t pid) : pid_(pid) {}

  // Has the shell ended? Reaps it.
  bool has_ended() {
    if (ended_) return true;
    int status = 0;
    const pid_t reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped == pid_) status_ = status;
    // Where SIGCHLD is ignored, the kernel reaps, and nobody learns how it went.
    ended_ = reaped == pid_ || (reaped < 0 && errno == ECHILD);
    return ended_;
  }
  bool is_group_gone() { return has_ended() && kill(-pid_, 0) != 0; }
  void signal_group(int number) const { kill(-pid_, number); }

  Status how_it_went() const {
    constexpr char kTry[] = "run it by hand, with TERN_EVENT and the others set, to see why";
    if (!status_ || *status_ == 0) return {};
    if (WIFSIGNALED(*status_)) {
      return fail(Code::unavailable,
                  fmt::format("the command was ended by signal {}; {}", WTERMSIG(*status_), kTry));
    }
    return fail(Code::unavailable,
                fmt::format("the command exited with {}; {}", WEXITSTATUS(*status_), kTry));
  }

 private:
  const pid_t pid_;
  bool ended_ = false;
  std::optional<int> status_;  // nothing: it runs, or nobody knows
};

}  // namespace

std::string one_line(std::string_view text) {
  size_t length = std::min(text.size(), kReasonBytesMax);
  // Not in the middle of a UTF-8 character.
  while (length < text.size() && length > 0 &&
         (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) {
    --length;
  }
  std::string line(text.substr(0, length));
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  return line;
}

Status run_event_command(const std::string& command, const RunEvent& event, Clock& clock, Log& log,
                         const EventLimits& limits) {
  if (command.empty()) return {};
  // Not the command itself: it may carry a password.
  log.info("train", "running the command of --on-event",
           {{"event", std::string(status_name(event.status))}});
  ASSIGN_OR_RETURN(const pid_t pid, SpawnPlan().spawn_shell(command, environment_with(event)));
  Command running(pid);
  if (wait_at_most(limits.run_max, clock, [&] { return running.has_ended(); })) {
    return running.how_it_went();
  }
  running.signal_group(SIGTERM);
  if (!wait_at_most(limits.grace, clock, [&] { return running.is_group_gone(); })) {
    running.signal_group(SIGKILL);
    // Bounded too: a process that hangs in a dead network disk does not even die.
    wait_at_most(limits.grace, clock, [&] { return running.has_ended(); });
  }
  return fail(
      Code::deadline_exceeded,
      fmt::format("the command took longer than {} and was ended; let it do its work in "
                  "the background (`CMD &`) if it needs more",
                  format_duration(std::chrono::duration_cast<Milliseconds>(limits.run_max))));
}

}  // namespace tern
