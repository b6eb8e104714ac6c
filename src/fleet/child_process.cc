#include "fleet/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

extern "C" {  // glibc 2.36 forgets to say it
#include <sys/pidfd.h>
}

#include "storage/file_door.h"

namespace tern {
namespace {

constexpr Milliseconds kGrace{2000};

struct Ends {
  FileDescriptor ours;
  FileDescriptor theirs;
};

Result<Ends> make_pipe(bool child_reads) {
  std::array<int, 2> fds{};
  // A socket takes what is written without a SIGPIPE once the child has gone.
  const int failed = child_reads ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data())
                                 : pipe2(fds.data(), O_CLOEXEC);
  if (failed != 0) {
    return fail(Code::exhausted, fmt::format("no pipe to another program can be made: {}; close "
                                             "some programs and try again",
                                             std::strerror(errno)));
  }
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return Ends{FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

// In the child, between fork() and exec(): only calls that a signal handler might make.
[[noreturn]] void become(char* const* arguments, int in, int out, int err, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGPIPE, SIGCHLD}) {
    signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const ssize_t ignored = write(failure, &error, sizeof error);
  _exit(127);
}

// A started child and the ends of its pipes.
class Child {
 public:
  static Result<Child> start(const ChildSetup& setup);

  void signal_group(int number) const { kill(-pid_, number); }
  // Waits for something to happen, at most `wait` (negative: as long as it takes), and takes what
  // comes. False once the child has ended and all that it said is taken.
  bool step(int wait_ms, int wake);
  ChildAnswer take_answer() { return std::move(answer_); }
  // The rest of its life: it was killed.
  void reap() const {
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

 private:
  Child(const ChildSetup& setup, pid_t pid, FileDescriptor in, FileDescriptor out,
        FileDescriptor err)
      : setup_(&setup),
        pid_(pid),
        pidfd_(pidfd_open(pid, 0)),
        in_(std::move(in)),
        out_(std::move(out)),
        err_(std::move(err)) {}

  void give_input();
  enum class Took { some, nothing, end };
  Took take(int fd, Bytes& kept);
  // What it said before it ended is in the pipe, which somebody in the background may hold open.
  void take_rest(int fd, Bytes& kept);
  bool has_ended();

  const ChildSetup* setup_;
  pid_t pid_;
  FileDescriptor pidfd_;
  std::optional<FileDescriptor> in_;
  FileDescriptor out_;
  FileDescriptor err_;
  size_t given_ = 0;
  bool out_open_ = true;
  bool err_open_ = true;
  ChildAnswer answer_;
};

Result<Child> Child::start(const ChildSetup& setup) {
  ASSIGN_OR_RETURN(Ends in, make_pipe(/*child_reads=*/true));
  ASSIGN_OR_RETURN(Ends out, make_pipe(/*child_reads=*/false));
  ASSIGN_OR_RETURN(Ends err, make_pipe(/*child_reads=*/false));
  ASSIGN_OR_RETURN(Ends failure, make_pipe(/*child_reads=*/false));
  int stdin_fd = in.theirs.get();
  std::optional<FileDescriptor> file;
  if (!setup.input_file.empty()) {
    file.emplace(open(setup.input_file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file->is_open()) return file_error("read", setup.input_file, errno);
    stdin_fd = file->get();
  }
  std::vector<char*> arguments;
  for (const std::string& word : setup.command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    become(arguments.data(), stdin_fd, out.theirs.get(), err.theirs.get(), failure.theirs.get());
  }
  if (pid < 0) {
    return fail(Code::exhausted, fmt::format("{} cannot be started: {}", setup.command.front(),
                                             std::strerror(errno)));
  }
  setpgid(pid, pid);  // whichever of the two is first
  {
    const FileDescriptor closed[] = {std::move(in.theirs), std::move(out.theirs),
                                     std::move(err.theirs), std::move(failure.theirs)};
  }
  int error = 0;
  fcntl(failure.ours.get(), F_SETFL, 0);
  if (read(failure.ours.get(), &error, sizeof error) == sizeof error) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return fail(
        error == ENOENT ? Code::not_found : Code::unavailable,
        fmt::format("{} cannot be started: {}", setup.command.front(), std::strerror(error)));
  }
  return Child(setup, pid, std::move(in.ours), std::move(out.ours), std::move(err.ours));
}

void Child::give_input() {
  const BytesView rest = BytesView(setup_->input).substr(given_);
  const ssize_t sent = rest.empty() ? 0 : send(in_->get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent > 0) given_ += static_cast<size_t>(sent);
  const bool failed = sent < 0 && errno != EAGAIN && errno != EINTR;
  if (failed || given_ == setup_->input.size()) in_.reset();
}

// One piece at a time: a child that never falls silent must not hide a stop.
Child::Took Child::take(int fd, Bytes& kept) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(fd, buffer.data(), buffer.size());
  if (count == 0) return Took::end;
  if (count < 0) return errno == EAGAIN || errno == EINTR ? Took::nothing : Took::end;
  const size_t room = setup_->output_bytes_max - std::min(kept.size(), setup_->output_bytes_max);
  kept.append(buffer.data(), std::min(static_cast<size_t>(count), room));
  if (static_cast<size_t>(count) > room) answer_.is_cut = true;
  return Took::some;
}

void Child::take_rest(int fd, Bytes& kept) {
  constexpr int kPiecesMax = 256;  // a pipe holds less, unless somebody still writes
  for (int i = 0; i < kPiecesMax && take(fd, kept) == Took::some; ++i) {
  }
}

bool Child::has_ended() {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  answer_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return true;
}

bool Child::step(int wait_ms, int wake) {
  const auto fd_or_none = [](bool open, int fd) { return open ? fd : -1; };
  std::array<pollfd, 5> events{{{pidfd_.get(), POLLIN, 0},
                                {in_ ? in_->get() : -1, POLLOUT, 0},
                                {fd_or_none(out_open_, out_.get()), POLLIN, 0},
                                {fd_or_none(err_open_, err_.get()), POLLIN, 0},
                                {wake, POLLIN, 0}}};
  poll(events.data(), events.size(), wait_ms);
  if (events[1].revents != 0) give_input();
  if (events[2].revents != 0) out_open_ = take(out_.get(), answer_.out) != Took::end;
  if (events[3].revents != 0) err_open_ = take(err_.get(), answer_.err) != Took::end;
  if (!has_ended()) return true;
  take_rest(out_.get(), answer_.out);
  take_rest(err_.get(), answer_.err);
  return false;
}

int ms_until(Nanoseconds deadline, Clock& clock) {
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - clock.now()).count() + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

}  // namespace

Result<ChildAnswer> run_child(const ChildSetup& setup, Clock& clock, std::stop_token stop) {
  const FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ASSIGN_OR_RETURN(Child child, Child::start(setup));
  const std::stop_callback on_stop(stop, [&wake] {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = write(wake.get(), &one, sizeof one);
  });
  const bool has_limit = setup.limit.count() > 0;
  const Nanoseconds deadline = clock.now() + setup.limit;
  while (!stop.stop_requested() && !(has_limit && clock.now() >= deadline)) {
    if (!child.step(has_limit ? ms_until(deadline, clock) : -1, wake.get())) {
      return child.take_answer();
    }
  }
  child.signal_group(SIGTERM);
  const Nanoseconds last = clock.now() + kGrace;
  bool runs = true;
  while (runs && clock.now() < last) runs = child.step(ms_until(last, clock), -1);
  if (runs) {
    child.signal_group(SIGKILL);
    child.reap();
  }
  if (stop.stop_requested()) return fail(Code::cancelled, "stopped");
  return fail(Code::deadline_exceeded,
              fmt::format("no end after {} s", setup.limit.count() / 1000));
}

}  // namespace tern
