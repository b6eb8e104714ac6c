#include "fleet/agent_verbs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>

#include "core/crypto.h"
#include "core/system_files.h"
#include "fleet/marked_processes.h"
#include "fleet/private_file.h"
#include "fleet/status_file.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kTailBytes = 16 << 10;
constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(20);
// A process in the middle of a disk's write dies when that is done.
constexpr Nanoseconds kDieMax = std::chrono::seconds(15);

struct LogPart {
  Bytes text;
  int64_t size_bytes = 0;  // of the whole log
};

Result<LogPart> read_log(const fs::path& log, int64_t offset, int64_t bytes_max) {
  const FileDescriptor fd(open(log.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return file_error("read", log, errno);
  LogPart part;
  part.size_bytes = lseek(fd.get(), 0, SEEK_END);
  const int64_t from = offset < 0 ? std::max<int64_t>(0, part.size_bytes + offset) : offset;
  part.text.resize(static_cast<size_t>(
      std::clamp<int64_t>(part.size_bytes - from, 0, std::max<int64_t>(0, bytes_max))));
  const ssize_t count = pread(fd.get(), part.text.data(), part.text.size(), from);
  if (count < 0) return file_error("read", log, errno);
  part.text.resize(static_cast<size_t>(count));
  return part;
}

std::string last_line_of(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t begin = text.rfind('\n');
  return printable_line(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

std::string state_of(const AgentFolder& folder) {
  if (!folder.exists()) return "absent";
  if (folder.end()) return "ended";
  const auto record = folder.record();
  return record && is_alive(record->agent) ? "running" : "lost";
}

std::string role_of(const MarkedProcess& process, const std::optional<AgentRecord>& record) {
  if (record && process.pid == record->agent.pid) return "agent";
  if (record && process.pid == record->command.pid) return "command";
  return "part";
}

}  // namespace

Json agent_status(const fs::path& agents, const std::string& mark) {
  const AgentFolder folder(agents, mark);
  const auto record = folder.record();
  Json status = {{"state", state_of(folder)}, {"folder", folder.path().string()}};
  if (record) {
    status["pid"] = record->command.pid;
    status["pid_start"] = record->command.start;
    status["started_unix_ms"] = record->started_unix_ms;
  }
  if (const auto end = folder.end()) {
    status["exit_code"] = end->exit_code;
    status["notice"] = end->notice;
    status["ended_unix_ms"] = end->unix_ms;
  }
  if (const Result<LogPart> tail = read_log(folder.log(), -kTailBytes, kTailBytes)) {
    status["log_bytes"] = tail->size_bytes;
    status["last_line"] = last_line_of(tail->text);
    const int64_t step = last_step_in(tail->text);
    status["step"] = step < 0 ? Json() : Json(step);
  }
  Json told;
  if (const Result<Bytes> text = read_private_file(folder.status(), kStatusFileBytesMax)) {
    told = read_status_file(*text);
  }
  for (const char* key : {"role", "hub", "term", "generation", "ranks"}) {
    if (told.is_object()) status[key] = told[key];
  }
  // The log tells of the last step late, and only where it leads.
  if (told.is_object() && told["step"] >= 0) status["step"] = told["step"];
  Json processes = Json::array();
  for (const MarkedProcess& process : find_marked_processes(mark)) {
    processes.push_back({{"pid", process.pid},
                         {"pid_start", process.start},
                         {"role", role_of(process, record)},
                         {"title", process.title}});
  }
  name_ranks(processes, told);
  status["processes"] = std::move(processes);
  return status;
}

Result<Json> agent_log(const fs::path& agents, const std::string& mark, int64_t offset,
                       int64_t bytes_max) {
  const AgentFolder folder(agents, mark);
  // Before the log: what was written until the end is then in it.
  const std::string state = state_of(folder);
  if (state == "absent") {
    return fail(Code::not_found, "its log is not there any more: the run was taken down");
  }
  ASSIGN_OR_RETURN(const LogPart part, read_log(folder.log(), offset, bytes_max));
  const int64_t begin = offset < 0 ? std::max<int64_t>(0, part.size_bytes + offset) : offset;
  return Json{{"state", state},
              {"log", base64(part.text)},
              {"next", begin + static_cast<int64_t>(part.text.size())}};
}

Status notify_agent(const fs::path& agents, const std::string& mark, const std::string& kind) {
  const AgentFolder folder(agents, mark);
  const auto record = folder.record();
  const int number = kind == "stop" ? SIGINT : SIGTERM;
  if (record && record->agent.boot_id == name_of_process(getpid()).boot_id && !folder.end() &&
      signal_process(record->agent.pid, record->agent.start, number)) {
    return {};
  }
  return fail(Code::failed_precondition,
              fmt::format("nothing of the run is running there ({})", state_of(folder)));
}

bool wait_for_agent(const fs::path& agents, const std::string& mark, Nanoseconds limit,
                    Clock& clock) {
  const AgentFolder folder(agents, mark);
  const Nanoseconds deadline = clock.now() + limit;
  while (state_of(folder) == "running") {
    if (clock.now() >= deadline) return false;
    clock.wait_for(kLookEvery, {});
  }
  return true;
}

Status end_marked_processes(const std::string& mark, Clock& clock) {
  const Nanoseconds deadline = clock.now() + kDieMax;
  for (auto left = find_marked_processes(mark); !left.empty(); left = find_marked_processes(mark)) {
    if (clock.now() > deadline) {
      return fail(Code::unavailable,
                  fmt::format("process {} ({}) does not die; look with `ps {}` whether it waits "
                              "for a disk that is gone, and try again",
                              left.front().pid, left.front().title, left.front().pid));
    }
    for (const MarkedProcess& process : left) signal_process(process.pid, process.start, SIGKILL);
    clock.wait_for(kLookEvery, {});
  }
  return {};
}

Status remove_agent(const fs::path& agents, const std::string& mark, Nanoseconds grace,
                    Clock& clock) {
  if (grace.count() > 0 && notify_agent(agents, mark, "preempt")) {
    wait_for_agent(agents, mark, grace, clock);
  }
  RETURN_IF_ERROR(end_marked_processes(mark, clock));
  std::error_code error;
  fs::remove_all(AgentFolder(agents, mark).path(), error);
  if (error) return file_error("remove", AgentFolder(agents, mark).path(), error.value());
  fs::remove(agents, error);  // only if it was the last
  return {};
}

int64_t last_step_in(std::string_view log) {
  for (size_t at = log.rfind("step"); at != std::string_view::npos; at = log.rfind("step")) {
    std::string_view rest = log.substr(at + 4);
    log = log.substr(0, at);
    if (rest.empty() || (rest.front() != ' ' && rest.front() != '=')) continue;
    rest.remove_prefix(1);
    std::string digits;
    for (const char c : rest) {
      if (std::isdigit(static_cast<unsigned char>(c)) == 0 || digits.size() > 15) break;
      digits += c;
    }
    if (const auto step = parse_whole_number(digits)) return *step;
  }
  return -1;
}

}  // namespace tern
