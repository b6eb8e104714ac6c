#include "fleet/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fleet/agent_verbs.h"
#include "fleet/exec_words.h"
#include "fleet/json_fields.h"
#include "fleet/marked_processes.h"
#include "fleet/private_file.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

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

Result<AgentRecord> restart_agent(const std::string& mark, const AgentPlace& place, Clock& clock) {
  const AgentFolder folder(place.agents, mark);
  if (!folder.exists()) {
    return fail(Code::not_found,
                "nothing of the run is there any more; take it down with `tern down` and launch it "
                "again");
  }
  // Of two restarts one comes first, and the other finds an agent that runs.
  const FileDescriptor claim(
      open((folder.path() / "restart.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!claim.is_open() || flock(claim.get(), LOCK_EX) != 0) {
    return file_error("lock", folder.path() / "restart.lock", errno);
  }
  if (text_in(agent_status(place.agents, mark), "state") == "running") {
    return fail(Code::failed_precondition, "its agent is running");
  }
  RETURN_IF_ERROR(end_marked_processes(mark, clock));
  folder.forget_last_life();
  RETURN_IF_ERROR(start_detached(folder, mark, place));
  if (const std::optional<AgentRecord> record = folder.record()) return *record;
  return fail(Code::internal, "the agent has left no record of itself");
}

}  // namespace tern
