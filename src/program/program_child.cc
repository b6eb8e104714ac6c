#include "program/program_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "ranks/orphans.h"

namespace tern {
namespace {

constexpr int kNotStarted = 127;
// What was killed and waits for a disk that is gone does not die: 10 s.
constexpr int kOrphanLooks = 5'000;
constexpr int kOrphanPauseMs = 2;

// What the program had started is ours once it is dead, whatever its process group.
void end_its_orphans() {
  for (int i = 0; i < kOrphanLooks && !end_orphans({}); ++i) poll(nullptr, 0, kOrphanPauseMs);
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// We block signals to read them in peace; a program expects none of that.
void take_default_signals() {
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGPIPE, SIGCHLD}) {
    std::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become_program(char* const* words, char* const* environment, pid_t parent,
                                 int failure) {
  setpgid(0, 0);
  // The rank may have died before this took effect.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent) {
    take_default_signals();
    execvpe(words[0], words, environment);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(failure, &error, sizeof error);
  _exit(kNotStarted);
}

}  // namespace

Result<ProgramChild> ProgramChild::start(const std::vector<std::string>& words,
                                         const std::vector<std::string>& environment) {
  if (words.empty()) return fail(Code::invalid, "there is no program to run");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(Code::exhausted, "no pipe can be made");
  const Descriptor failure(ends[0]);
  Descriptor theirs(ends[1]);
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  ProgramChild child;
  adopt_orphans();
  const pid_t parent = getpid();
  child.pid_ = fork();
  if (child.pid_ == 0) {
    become_program(word_pointers.data(), environment_pointers.data(), parent, theirs.get());
  }
  if (child.pid_ < 0) {
    return fail(Code::exhausted, fmt::format("no process can be made: {}", std::strerror(errno)));
  }
  theirs.reset();
  int error = 0;
  ssize_t got = -1;
  do {
    got = read(failure.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    return fail(Code::not_found, fmt::format("{} cannot be started: {}; is it installed here, and "
                                             "in PATH?",
                                             words.front(), std::strerror(error)));
  }
  child.ended_.reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0)));
  if (!child.ended_.is_open()) {
    return fail(Code::unavailable,
                fmt::format("cannot watch the program: {}; Linux 5.3 or newer is needed",
                            std::strerror(errno)));
  }
  return child;
}

ProgramChild::ProgramChild(ProgramChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ended_(std::move(other.ended_)) {}

ProgramChild::~ProgramChild() {
  if (pid_ > 0) end(Milliseconds(0));
}

void ProgramChild::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

std::optional<int> ProgramChild::try_wait() {
  if (pid_ < 0) return std::nullopt;
  reap_orphans(pid_);
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == 0) {
    return std::nullopt;
  }
  // Before it is reaped, while the number is still its group's and nobody else's.
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  end_its_orphans();
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void ProgramChild::end(Milliseconds grace) {
  if (pid_ < 0) return;
  if (grace.count() > 0) {
    kill(-pid_, SIGTERM);
    pollfd ended{ended_.get(), POLLIN, 0};
    poll(&ended, 1, static_cast<int>(grace.count()));
  }
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);  // it may not have become its group's leader yet
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  end_its_orphans();
}

}  // namespace tern
