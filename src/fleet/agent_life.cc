#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/stdio.h"
#include "fleet/agent.h"
#include "fleet/exec_words.h"
#include "fleet/marked_processes.h"
#include "fleet/private_file.h"
#include "fleet/restart_rule.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRequestBytesMax = 8 << 20;
constexpr Nanoseconds kGrace = std::chrono::seconds(5);
constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(20);

Error cannot_be_started(const std::string& program, const fs::path& where, int error) {
  return fail(Code::not_found, fmt::format("{} cannot be started in {}: {}", program,
                                           where.string(), std::strerror(error)));
}

// Whether there is such a program, found as exec() would: told at once, not by a rank later.
Status check_program(const std::string& program, const fs::path& where) {
  const auto is_there = [](const fs::path& path) {
    return access(path.c_str(), X_OK) == 0 && !fs::is_directory(path);
  };
  std::error_code error;
  if (!fs::is_directory(where, error)) return cannot_be_started(program, where, ENOENT);
  if (program.find('/') != std::string::npos) {
    if (is_there(where / program)) return {};
    return cannot_be_started(program, where, errno);
  }
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& variable : environment_with({})) {
    if (variable.starts_with("PATH=")) path = variable.substr(5);
  }
  std::stringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (is_there(where / folder / program)) return {};
  }
  return cannot_be_started(program, where, ENOENT);
}

// The agent's life after its command was started.
class Agent {
 public:
  Agent(const AgentFolder& folder, AgentRequest request, const AgentPlace& place, Clock& clock)
      : folder_(folder), request_(std::move(request)), place_(place), clock_(clock) {}

  // REQUIRES: signals are blocked. The record of what was started.
  Result<AgentRecord> start_command();
  // Returns when the command has ended for good: one that somebody kills is started again.
  Status watch(int signals);

 private:
  std::vector<std::string> variables() const;
  void pass_on(const std::string& kind, int number);
  void say(const std::string& sentence) const {
    write_stderr(fmt::format("tern agent: {}\n", sentence));
  }
  void reap();
  void end_the_rest();
  // Waits for a signal, at most `limit`, and obeys it.
  Status obey_next(int signals, std::optional<Nanoseconds> limit);
  // False if the command has ended for good.
  Result<bool> start_again(int signals);

  const AgentFolder& folder_;
  const AgentRequest request_;
  const AgentPlace& place_;
  Clock& clock_;
  pid_t command_ = -1;  // -1: it was reaped
  Nanoseconds began_{0};
  RestartRule rule_;
  EndRecord end_;
};

std::vector<std::string> Agent::variables() const {
  std::map<std::string, std::string> more = request_.environment;
  more[kMarkVariable] = request_.mark();
  more["TERN_NOTICE_FILE"] = folder_.notice().string();
  more["TERN_STATUS_FILE"] = folder_.status().string();
  std::error_code error;
  if (fs::exists(folder_.secret(), error)) more["TERN_SECRET_FILE"] = folder_.secret().string();
  return environment_with(more);
}

Result<AgentRecord> Agent::start_command() {
  const std::vector<std::string> all_words =
      command_words(request_, place_.executable, folder_.path());
  const std::vector<std::string> all_variables = variables();
  const fs::path where = request_.folder.empty() ? place_.home : fs::path(request_.folder);
  if (request_.command.empty() && request_.run_file.empty()) {
    return fail(Code::invalid, "there is no command to run");
  }
  if (request_.is_program) RETURN_IF_ERROR(check_program(request_.command.front(), where));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(Code::exhausted, "no pipe can be made");
  const FileDescriptor failure(ends[0]);
  const auto arguments = pointers(all_words);
  const auto environment = pointers(all_variables);
  {
    const FileDescriptor theirs(ends[1]);
    command_ = fork();
    if (command_ == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      take_default_signals();
      if (chdir(where.c_str()) == 0) execvpe(arguments[0], arguments.data(), environment.data());
      const int error = errno;
      [[maybe_unused]] const ssize_t ignored = write(theirs.get(), &error, sizeof error);
      _exit(127);
    }
  }
  if (command_ < 0) {
    return fail(Code::exhausted, fmt::format("no process can be made: {}", std::strerror(errno)));
  }
  int error = 0;
  if (read(failure.get(), &error, sizeof error) == sizeof error) {
    command_ = -1;
    return cannot_be_started(all_words.front(), where, error);
  }
  began_ = clock_.now();
  return AgentRecord{.agent = name_of_process(getpid()),
                     .command = name_of_process(command_),
                     .started_unix_ms = clock_.unix_ms()};
}

void Agent::pass_on(const std::string& kind, int number) {
  end_.notice = kind;
  const nlohmann::json notice = {
      {"kind", kind}, {"source", "tern " + kind}, {"unix_ms", clock_.unix_ms()}};
  // The signal counts, with or without the file.
  const Status written = write_private_file(folder_.notice(), notice.dump() + "\n");
  if (!written) say(written.error().message);
  // Not yet waited for, so the number is still the command's.
  if (command_ > 0) kill(command_, number);
}

void Agent::reap() {
  for (;;) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WNOHANG);
    if (child <= 0) return;
    if (child != command_) continue;
    end_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    command_ = -1;
  }
}

// What the command has left in the background is ours as well: it became our child.
void Agent::end_the_rest() {
  const Nanoseconds deadline = clock_.now() + kGrace;
  int number = SIGTERM;
  for (auto rest = find_marked_processes(request_.mark()); !rest.empty();
       rest = find_marked_processes(request_.mark())) {
    if (clock_.now() > deadline + kGrace) return;
    if (number == SIGTERM || clock_.now() > deadline) {
      for (const MarkedProcess& process : rest) signal_process(process.pid, process.start, number);
      number = SIGKILL;
    }
    clock_.wait_for(kLookEvery, {});
    reap();
  }
}

Status Agent::obey_next(int signals, std::optional<Nanoseconds> limit) {
  pollfd ready{signals, POLLIN, 0};
  const int wait_ms =
      limit ? static_cast<int>(std::chrono::ceil<Milliseconds>(*limit).count()) : -1;
  if (poll(&ready, 1, wait_ms) <= 0) return {};
  signalfd_siginfo info{};
  if (read(signals, &info, sizeof info) != sizeof info) {
    if (errno == EINTR) return {};
    return fail(Code::internal, fmt::format("signals cannot be read: {}", std::strerror(errno)));
  }
  switch (info.ssi_signo) {
    case SIGTERM: pass_on("preempt", SIGTERM); break;
    case SIGINT: pass_on("stop", request_.stop_signal); break;
    case SIGCHLD: reap(); break;
    default: break;  // the terminal's end is none of ours
  }
  return {};
}

Result<bool> Agent::start_again(int signals) {
  const int number = -end_.exit_code;
  // It has ended by itself, or was told to leave.
  if (number <= 0 || !end_.notice.empty()) return false;
  const std::optional<Nanoseconds> pause = rule_.next_pause(clock_.now() - began_);
  if (!pause) {
    say(
        fmt::format("the command was killed by signal {} again; after {} starts in a row it is "
                    "given up",
                    number, RestartRule::kStartsMax));
    return false;
  }
  say(fmt::format("the command was killed by signal {}; it is started again in {:.2f} s", number,
                  to_seconds(*pause)));
  end_the_rest();
  const Nanoseconds deadline = clock_.now() + *pause;
  for (Nanoseconds now = clock_.now(); now < deadline; now = clock_.now()) {
    RETURN_IF_ERROR(obey_next(signals, deadline - now));
    if (!end_.notice.empty()) return false;
  }
  std::error_code ignored;
  fs::remove(folder_.status(), ignored);
  const Result<AgentRecord> record = start_command();
  if (!record) {
    say(record.error().message);
    return false;
  }
  RETURN_IF_ERROR(folder_.write_record(*record));
  return true;
}

Status Agent::watch(int signals) {
  for (bool runs = true; runs;) {
    while (command_ > 0) RETURN_IF_ERROR(obey_next(signals, std::nullopt));
    ASSIGN_OR_RETURN(runs, start_again(signals));
  }
  end_.unix_ms = clock_.unix_ms();
  const Status written = folder_.write_end(end_);
  end_the_rest();
  return written;
}

Result<int> open_signals() {
  sigset_t all;
  sigemptyset(&all);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1}) sigaddset(&all, number);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  const int fd = signalfd(-1, &all, SFD_CLOEXEC);
  if (fd >= 0) return fd;
  return fail(Code::exhausted, "signals cannot be watched");
}

}  // namespace

Status run_agent(const AgentFolder& folder, const AgentPlace& place, Clock& clock, int ready) {
  fcntl(ready, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::optional<Agent> agent;
  const auto start = [&]() -> Result<int> {
    ASSIGN_OR_RETURN(const Bytes text, read_private_file(folder.request(), kRequestBytesMax));
    ASSIGN_OR_RETURN(AgentRequest request, parse_agent_request(text));
    ASSIGN_OR_RETURN(const int signals, open_signals());
    agent.emplace(folder, std::move(request), place, clock);
    ASSIGN_OR_RETURN(const AgentRecord record, agent->start_command());
    RETURN_IF_ERROR(folder.write_record(record));
    return signals;
  };
  const Result<int> signals = start();
  {
    const FileDescriptor answer(ready);
    size_t written = 0;
    write_fully(answer.get(), signals ? "ok" : signals.error().message, written);
  }
  if (!signals) return signals.error();
  return agent->watch(*signals);
}

}  // namespace tern
