#include "fleet/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/stdio.h"
#include "fleet/marked_processes.h"
#include "fleet/private_file.h"
#include "storage/file_door.h"

extern char** environ;  // POSIX declares it nowhere

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRequestBytesMax = 8 << 20;
constexpr Nanoseconds kGrace = std::chrono::seconds(5);
constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(20);

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Ours, with `more` in place of variables of the same names.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (!more.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
  }
  for (const auto& [name, value] : more) variables.push_back(name + "=" + value);
  return variables;
}

void take_default_signals() {
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGPIPE, SIGCHLD}) {
    signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Writes what the agent will read. The folder is the claim: of two starts one makes it.
Status lay_out(const AgentFolder& folder, const AgentRequest& request) {
  RETURN_IF_ERROR(make_private_folder(folder.path().parent_path()));
  if (mkdir(folder.path().c_str(), 0700) != 0) {
    if (errno != EEXIST) return file_error("make", folder.path(), errno);
    return fail(Code::already_exists,
                fmt::format("this run has an agent here already, in {}", folder.path().string()));
  }
  AgentRequest without_secret = request;
  without_secret.secret.clear();
  RETURN_IF_ERROR(write_private_file(folder.request(), to_json(without_secret).dump()));
  if (!request.secret.empty()) {
    RETURN_IF_ERROR(write_private_file(folder.secret(), request.secret));
  }
  if (request.run_file.empty()) return {};
  return write_private_file(folder.path() / request.run_file, request.run_file_text);
}

// Becomes `tern agent run FOLDER` in a session of its own. Runs in a forked child.
[[noreturn]] void become_agent(char* const* arguments, char* const* variables, int log, int ready) {
  setsid();
  // Not the leader of its session, so that no terminal can ever become its own.
  if (fork() != 0) _exit(0);
  take_default_signals();
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  dup2(ready, 3);
  closefrom(4);
  execve(arguments[0], arguments, variables);
  constexpr char kFailed[] = "tern cannot be started a second time";
  [[maybe_unused]] const ssize_t ignored = write(3, kFailed, sizeof kFailed - 1);
  _exit(127);
}

std::string read_to_end(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || text.size() > sizeof buffer) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

Status start_detached(const AgentFolder& folder, const std::string& mark, const AgentPlace& place) {
  const FileDescriptor log(
      open(folder.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.is_open()) return file_error("write", folder.log(), errno);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(Code::exhausted, "no pipe can be made");
  const FileDescriptor answer(ends[0]);
  const std::vector<std::string> words = {place.executable.string(), "agent", "run",
                                          folder.path().string()};
  const std::vector<std::string> variables = environment_with({{kMarkVariable, mark}});
  const auto arguments = pointers(words);
  const auto environment = pointers(variables);
  pid_t child = -1;
  {
    const FileDescriptor ready(ends[1]);
    child = fork();
    if (child == 0) become_agent(arguments.data(), environment.data(), log.get(), ready.get());
  }
  if (child < 0) {
    return fail(Code::exhausted, fmt::format("no process can be made: {}", std::strerror(errno)));
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  const std::string said = read_to_end(answer.get());
  if (said == "ok") return {};
  return fail(Code::failed_precondition, said.empty() ? "the agent ended at once" : said);
}

// The agent's life after its command was started.
class Agent {
 public:
  Agent(const AgentFolder& folder, AgentRequest request, const AgentPlace& place, Clock& clock)
      : folder_(folder), request_(std::move(request)), place_(place), clock_(clock) {}

  // REQUIRES: signals are blocked. The record of what was started.
  Result<AgentRecord> start_command();
  // Returns when the command has ended.
  Status watch(int signals);

 private:
  std::vector<std::string> words() const;
  std::vector<std::string> variables() const;
  void pass_on(const std::string& kind, int number);
  // True once the command itself was reaped.
  bool reap();
  void end_the_rest();

  const AgentFolder& folder_;
  const AgentRequest request_;
  const AgentPlace& place_;
  Clock& clock_;
  pid_t command_ = -1;
  EndRecord end_;
};

std::vector<std::string> Agent::words() const {
  if (request_.run_file.empty()) return request_.command;
  std::vector<std::string> words = {place_.executable.string(), "train",
                                    (folder_.path() / request_.run_file).string()};
  words.insert(words.end(), request_.command.begin(), request_.command.end());
  return words;
}

std::vector<std::string> Agent::variables() const {
  std::map<std::string, std::string> more = request_.environment;
  more[kMarkVariable] = request_.mark();
  more["TERN_NOTICE_FILE"] = folder_.notice().string();
  std::error_code error;
  if (fs::exists(folder_.secret(), error)) more["TERN_SECRET_FILE"] = folder_.secret().string();
  return environment_with(more);
}

Result<AgentRecord> Agent::start_command() {
  const std::vector<std::string> all_words = words();
  const std::vector<std::string> all_variables = variables();
  const fs::path where = request_.folder.empty() ? place_.home : fs::path(request_.folder);
  if (all_words.empty()) return fail(Code::invalid, "there is no command to run");
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
    return fail(Code::not_found, fmt::format("{} cannot be started in {}: {}", all_words.front(),
                                             where.string(), std::strerror(error)));
  }
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
  if (!written) write_stderr(fmt::format("tern agent: {}\n", written.error().message));
  // Not yet waited for, so the number is still the command's.
  kill(command_, number);
}

bool Agent::reap() {
  bool ended = false;
  for (;;) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WNOHANG);
    if (child <= 0) return ended;
    if (child != command_) continue;
    end_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    ended = true;
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

Status Agent::watch(int signals) {
  for (bool ended = false; !ended;) {
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof info) != sizeof info) {
      if (errno == EINTR) continue;
      return fail(Code::internal, fmt::format("signals cannot be read: {}", std::strerror(errno)));
    }
    switch (info.ssi_signo) {
      case SIGTERM: pass_on("preempt", SIGTERM); break;
      case SIGINT: pass_on("stop", request_.stop_signal); break;
      case SIGCHLD: ended = reap(); break;
      default: break;  // the terminal's end is none of ours
    }
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

Result<AgentRecord> start_agent(const AgentRequest& request, const AgentPlace& place) {
  const AgentFolder folder(place.agents, request.mark());
  Status started = lay_out(folder, request);
  if (!started && started.error().code == Code::already_exists) return started.error();
  if (started) started = start_detached(folder, request.mark(), place);
  const std::optional<AgentRecord> record = folder.record();
  if (started && record) return *record;
  std::error_code error;
  fs::remove_all(folder.path(), error);
  if (!started) return started.error();
  return fail(Code::internal, "the agent has left no record of itself");
}

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
