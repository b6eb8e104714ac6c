#include "cli/python_torch.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <sstream>
#include <string>
#include <string_view>

#include "storage/file_door.h"

extern char** environ;  // POSIX declares it nowhere

namespace tern {
namespace {

// Without the current folder in the path: a types.py or torch/ that lies there is not the answer.
// What follows the first line is for whoever wants to know for how long the answer holds: an
// installation changes one of these folders, or makes the user's own. The dot says that it is all.
constexpr char kQuestion[] = R"(
import sys
sys.path = [p for p in sys.path if p]
import importlib.util
spec = importlib.util.find_spec("torch")
found = list(spec.submodule_search_locations or []) if spec else []
print(found[0] if found else "", flush=True)
import os, site
for place in [sys.executable, site.getusersitepackages()] + sys.path:
    print(os.path.abspath(place))
print(".")
)";

constexpr size_t kAnswerBytesMax = 64 << 10;
constexpr std::string_view kWhole = ".";

// Starts python3 with its output into `out`; 0 if there is none. It gets no signal meant for us: in
// a process group of its own it does not hear Ctrl-C, which would look like a Python without torch.
// Our blocked signals are not its own, so whoever means it can end it.
pid_t start_python(int out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  sigset_t no_signals;
  sigemptyset(&no_signals);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &no_signals);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::string program = "python3";
  std::string flag = "-c";
  std::string question = kQuestion;
  std::array<char*, 4> arguments{program.data(), flag.data(), question.data(), nullptr};
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, program.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : 0;
}

// Everything up to the end of file; empty if that did not come in time.
std::string read_until(int in, Clock& clock, Nanoseconds deadline) {
  std::string answer;
  std::array<char, 1024> buffer;
  while (answer.size() <= kAnswerBytesMax) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - clock.now()).count();
    pollfd source{in, POLLIN, 0};
    if (left <= 0 || poll(&source, 1, static_cast<int>(left)) <= 0) return "";
    const ssize_t count = read(in, buffer.data(), buffer.size());
    if (count < 0) return "";
    if (count == 0) return answer;
    answer.append(buffer.data(), static_cast<size_t>(count));
  }
  return "";
}

PythonAnswer parse_answer(const std::string& text) {
  std::istringstream lines(text);
  PythonAnswer answer;
  std::string line;
  if (std::getline(lines, line) && !line.empty()) answer.torch = line;
  while (std::getline(lines, line)) answer.looked_at.emplace_back(line);
  if (answer.looked_at.empty() || answer.looked_at.back() != kWhole) {
    answer.looked_at.clear();
  } else {
    answer.looked_at.pop_back();
  }
  return answer;
}

}  // namespace

std::optional<PythonAnswer> ask_python(Clock& clock, Nanoseconds limit) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const FileDescriptor in(ends[0]);
  pid_t child = 0;
  {
    const FileDescriptor out(ends[1]);  // closed before reading, or the end would never come
    child = start_python(out.get());
  }
  if (child == 0) return std::nullopt;

  const std::string answer = read_until(in.get(), clock, clock.now() + limit);
  // Whether it has answered or hangs, it is no longer needed. It is our child and not yet waited
  // for, so the number is still its own.
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (answer.empty()) return std::nullopt;
  return parse_answer(answer);
}

std::optional<std::filesystem::path> find_python_torch(Clock& clock, Nanoseconds limit) {
  const std::optional<PythonAnswer> answer = ask_python(clock, limit);
  return answer ? answer->torch : std::nullopt;
}

}  // namespace tern
