#include "process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "tiny_data.h"

namespace tern {
namespace {

std::filesystem::path temporary_file() {
  std::string name = testing::TempDir() + "/tern-output-XXXXXX";
  const int descriptor = mkstemp(name.data());
  EXPECT_GE(descriptor, 0);
  close(descriptor);
  return name;
}

[[noreturn]] void become(const Process::Start& start, const char* out, const char* err) {
  if (!start.folder.empty() && chdir(start.folder.c_str()) != 0) _exit(127);
  for (const auto& [name, value] : start.environment) setenv(name.c_str(), value.c_str(), 1);
  // As from a shell, whatever the tests were started with (nohup ignores SIGHUP).
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGPIPE}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(out, O_WRONLY | O_TRUNC), STDOUT_FILENO);
  dup2(open(err, O_WRONLY | O_TRUNC), STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : start.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

Process::Process(const Start& start) : out_(temporary_file()), err_(temporary_file()) {
  pid_ = fork();
  if (pid_ == 0) become(start, out_.c_str(), err_.c_str());
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::filesystem::remove(out_);
  std::filesystem::remove(err_);
}

void Process::signal(int number) const { EXPECT_EQ(kill(pid_, number), 0); }

std::string Process::err_so_far() const { return read_text(err_); }

Finished Process::wait() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
          .out = read_text(out_),
          .err = read_text(err_)};
}

Finished run_to_end(const Process::Start& start) { return Process(start).wait(); }

bool wait_until(const std::function<bool()>& condition) {
  SystemClock clock;
  const Nanoseconds deadline = clock.now() + std::chrono::minutes(1);
  while (!condition()) {
    if (clock.now() > deadline) return false;
    clock.wait_for(Milliseconds(10), std::stop_token());
  }
  return true;
}

}  // namespace tern
