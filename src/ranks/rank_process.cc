#include "ranks/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "ranks/rank_link.h"

namespace tern {
namespace {

constexpr size_t kLineBytes = 64 << 10;
constexpr int kNotStarted = 127;

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return fail(Code::exhausted,
                fmt::format("cannot make a pipe: {}; raise the limit on open files "
                            "(ulimit -n) and try again",
                            std::strerror(errno)));
  }
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// All that the child needs, made before fork(): after it only calls that are safe in a process
// whose other threads are gone.
struct Child {
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  pid_t parent = 0;
  int nothing = -1;
  int secret = -1;
  int out = -1;
  int err = -1;
  int failure = -1;  // told the errno of what failed; closed by exec()
};

[[noreturn]] void become_rank(const Child& child) {
  // The supervisor may have died before this took effect.
  const bool stays = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == child.parent;
  if (stays && setpgid(0, 0) == 0 && dup2(child.nothing, 0) == 0 && dup2(child.out, 1) == 1 &&
      dup2(child.err, 2) == 2 && fcntl(child.secret, F_SETFD, 0) == 0) {
    execve(child.program, child.arguments, child.environment);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(child.failure, &error, sizeof error);
  _exit(kNotStarted);
}

// 0 once exec() has closed the other end.
int read_failure(int fd) {
  int error = 0;
  while (read(fd, &error, sizeof error) < 0 && errno == EINTR) {
  }
  return error;
}

// False at the end.
bool read_some(int fd, Lines& lines, const Lines::Sink& sink) {
  std::array<char, 16 << 10> buffer;
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    lines.add({buffer.data(), static_cast<size_t>(got)}, sink);
  }
}

}  // namespace

std::string how_it_ended(int code) {
  if (code >= 0) return fmt::format("ended with exit code {}", code);
  return fmt::format("was killed by signal {} ({})", -code, strsignal(-code));
}

void Lines::add(BytesView bytes, const Sink& sink) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const bool ends = end != BytesView::npos;
    begun_.append(bytes.substr(0, end));
    bytes.remove_prefix(ends ? end + 1 : bytes.size());
    if (!ends && begun_.size() < kLineBytes) continue;
    sink(std::exchange(begun_, {}) + '\n');
  }
}

void Lines::finish(const Sink& sink) {
  if (!begun_.empty()) sink(std::exchange(begun_, {}) + '\n');
}

Result<RankProcess> RankProcess::start(const RankStart& start) {
  ASSIGN_OR_RETURN(Pipe secret, make_pipe());
  ASSIGN_OR_RETURN(Pipe out, make_pipe());
  ASSIGN_OR_RETURN(Pipe err, make_pipe());
  ASSIGN_OR_RETURN(Pipe failure, make_pipe());
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  // A pipe takes so few bytes without a reader.
  const ssize_t put = write(secret.write.get(), start.secret.data(), start.secret.size());
  if (put != static_cast<ssize_t>(start.secret.size()) || !nothing.is_open()) {
    return fail(Code::unavailable, "cannot hand over the run's secret; is /dev there?");
  }
  std::vector<std::string> arguments = start.arguments;
  std::vector<std::string> environment = start.environment;
  environment.push_back(fmt::format("{}={}", kRankSecretVariable, secret.read.get()));
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  const Child child{.program = start.program.c_str(),
                    .arguments = argument_pointers.data(),
                    .environment = environment_pointers.data(),
                    .parent = getpid(),
                    .nothing = nothing.get(),
                    .secret = secret.read.get(),
                    .out = out.write.get(),
                    .err = err.write.get(),
                    .failure = failure.write.get()};
  RankProcess process;
  process.pid_ = fork();
  if (process.pid_ == 0) become_rank(child);
  if (process.pid_ < 0) {
    return fail(Code::exhausted,
                fmt::format("cannot start a rank: {}; lower --ranks", std::strerror(errno)));
  }
  failure.write.reset();
  if (const int error = read_failure(failure.read.get()); error != 0) {
    return fail(Code::unavailable,
                fmt::format("cannot start {}: {}; was it built for this machine?",
                            start.program.string(), std::strerror(error)));
  }
  // glibc 2.36 declares pidfd_open() for C alone.
  process.ended_.reset(static_cast<int>(syscall(SYS_pidfd_open, process.pid_, 0)));
  if (!process.ended_.is_open()) {
    return fail(Code::unavailable, fmt::format("cannot watch a rank: {}; Linux 5.3 or newer is "
                                               "needed for --ranks",
                                               std::strerror(errno)));
  }
  process.out_ = std::move(out.read);
  process.err_ = std::move(err.read);
  fcntl(process.out_.get(), F_SETFL, O_NONBLOCK);
  fcntl(process.err_.get(), F_SETFL, O_NONBLOCK);
  return process;
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      ended_(std::move(other.ended_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      out_lines_(std::move(other.out_lines_)),
      err_lines_(std::move(other.err_lines_)) {}

RankProcess::~RankProcess() {
  if (pid_ < 0) return;
  kill();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// What it started goes with it: they are of its process group.
void RankProcess::kill() const {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
}

std::optional<int> RankProcess::try_wait() {
  if (pid_ < 0) return std::nullopt;
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended == 0) return std::nullopt;
  pid_ = -1;
  if (ended > 0 && WIFSIGNALED(status)) return -WTERMSIG(status);
  return ended > 0 ? WEXITSTATUS(status) : kNotStarted;
}

void RankProcess::read_output(const Lines::Sink& out, const Lines::Sink& err) {
  if (out_.is_open() && !read_some(out_.get(), out_lines_, out)) out_.reset();
  if (err_.is_open() && !read_some(err_.get(), err_lines_, err)) err_.reset();
}

void RankProcess::finish_output(const Lines::Sink& out, const Lines::Sink& err) {
  read_output(out, err);
  out_lines_.finish(out);
  err_lines_.finish(err);
}

}  // namespace tern
