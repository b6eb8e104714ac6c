// `tern agent VERB`: what a launched run's machines are asked, by `tern` on the machine that
// launched it. Hidden: requests come as JSON by stdin and answers go as JSON to stdout.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "cli/become_trainer.h"
#include "cli/command.h"
#include "cli/find_libtorch.h"
#include "cli/find_trainer.h"
#include "cli/fleet_door.h"
#include "core/system_files.h"
#include "fleet/agent_verbs.h"
#include "fleet/fetch_libtorch.h"
#include "fleet/json_fields.h"
#include "fleet/peer_address.h"
#include "fleet/setup_commands.h"
#include "fleet/shared_folder.h"
#include "fleet/slurm_driver.h"
#include "storage/proc_stat.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kRequestBytesMax = 16 << 20;
constexpr int kReadyDescriptor = 3;  // where start_agent() waits for its agent

Result<Json> read_request() {
  Bytes text;
  char buffer[65536];
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kRequestBytesMax) return fail(Code::invalid, "the request is too large");
  }
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return fail(Code::invalid,
              "`tern agent` is for other terns, which send it a request; see `tern "
              "launch --help`");
}

Json process_json(const ProcessName& process) {
  return {{"pid", process.pid}, {"start", process.start}, {"boot_id", process.boot_id}};
}

Result<Json> tell(const Result<AgentRecord>& started) {
  ASSIGN_OR_RETURN(const AgentRecord record, started);
  return Json{{"agent", process_json(record.agent)}, {"command", process_json(record.command)}};
}

Result<Json> setup(const Json& json, const Surroundings& surroundings, Clock& clock) {
  std::vector<std::string> commands;
  if (json.contains("commands") && json["commands"].is_array()) {
    for (const Json& command : json["commands"]) {
      if (!command.is_string()) return fail(Code::invalid, "a setup command is no text");
      commands.push_back(command.get<std::string>());
    }
  }
  ASSIGN_OR_RETURN(const SetupResult done,
                   run_setup_commands(commands, surroundings.cache, surroundings.cloud.home,
                                      this_setup_machine(), clock));
  return Json{{"ran", done.ran ? 1 : 0}, {"log", done.log.string()}};
}

// Whether the trainer would find LibTorch here; fetched if it does not and that is asked for.
Result<Json> libtorch(const Json& json, const Surroundings& surroundings, Clock& clock) {
  // Doctor tells that there is no trainer, or that TERN_LIBTORCH is wrong.
  const bool is_ours = find_trainer(surroundings.executable) && surroundings.libtorch.empty();
  if (!is_ours || find_libtorch_of(surroundings, clock)) return Json{{"missing", 0}};
  if (number_in(json, "fetch", 0) == 0) return Json{{"missing", 1}};
  RETURN_IF_ERROR(fetch_libtorch(
      {.target = fetched_libtorch(surroundings.cache), .version = kLibTorchVersion}, clock));
  RETURN_IF_ERROR(find_libtorch_of(surroundings, clock));
  return Json{{"missing", 0}};
}

Result<Json> meet(const Json& json, const Surroundings& surroundings) {
  std::string host = text_in(json, "interface");
  if (host.empty()) {
    ASSIGN_OR_RETURN(
        host, server_of_ssh_connection(surroundings.cloud.variable("SSH_CONNECTION").value_or("")));
  }
  ASSIGN_OR_RETURN(const std::string address, choose_peer_address(host));
  return Json{{"address", address}, {"boot_id", read_boot_id()}};
}

Result<Json> share(const Json& json, const Surroundings& surroundings, Clock& clock) {
  const fs::path folder = surroundings.cloud.home / text_in(json, "folder");
  const std::string token = text_in(json, "token");
  const std::string act = text_in(json, "act");
  const int64_t levels = std::clamp<int64_t>(number_in(json, "levels", 0), 0, 100);
  if (token.empty() || token.find('/') != std::string::npos) {
    return fail(Code::invalid, "the request has no token");
  }
  if (act == "leave") {
    ASSIGN_OR_RETURN(const int64_t above, leave_mark(folder, token));
    return Json{{"levels", above}};
  }
  if (act == "clear") clear_mark(folder, levels, token);
  return Json{{"seen", act == "see" && sees_mark(folder, levels, token, clock) ? 1 : 0}};
}

Result<Json> answer(const std::string& verb, const Json& json, const Surroundings& surroundings,
                    Clock& clock) {
  const AgentPlace place = agent_place(surroundings);
  if (verb == "setup") return setup(json, surroundings, clock);
  if (verb == "libtorch") return libtorch(json, surroundings, clock);
  if (verb == "meet") return meet(json, surroundings);
  if (verb == "share") return share(json, surroundings, clock);
  ASSIGN_OR_RETURN(const AgentRequest request, parse_agent_request(json.dump()));
  const std::string mark = request.mark();
  if (verb == "start") return tell(start_agent(request, place));
  if (verb == "restart") return tell(restart_agent(mark, place, clock));
  if (verb == "status") return agent_status(place.agents, mark);
  if (verb == "log") {
    return agent_log(place.agents, mark, number_in(json, "offset", 0),
                     std::min<int64_t>(number_in(json, "bytes_max", 0), 4 << 20));
  }
  if (verb == "preempt" || verb == "stop") {
    const Status told = notify_agent(place.agents, mark, verb);
    // What has ended has stopped: another machine's supervisor may have passed it on already.
    if (!told && verb == "preempt") return told.error();
    const bool ended =
        wait_for_agent(place.agents, mark, Milliseconds(number_in(json, "wait_ms", 0)), clock);
    Json status = agent_status(place.agents, mark);
    status["has_ended"] = ended;
    return status;
  }
  if (verb == "remove") {
    RETURN_IF_ERROR(
        remove_agent(place.agents, mark, Milliseconds(number_in(json, "grace_ms", 0)), clock));
    return Json::object();
  }
  return fail(Code::invalid, fmt::format("`tern agent` has no '{}'", verb));
}

// What Slurm, or the job's own process, has put into the environment.
std::string variable(const Surroundings& surroundings, const char* name) {
  return surroundings.cloud.variable(name).value_or("");
}
int64_t number_variable(const Surroundings& surroundings, const char* name) {
  return parse_whole_number(variable(surroundings, name)).value_or(0);
}

Result<int> slurm_job(const Surroundings& around, const std::string& folder, Clock& clock) {
  return run_slurm_job({.folder = folder,
                        .job = number_variable(around, "SLURM_JOB_ID"),
                        .restarts = number_variable(around, "SLURM_RESTART_COUNT"),
                        .nodes = variable(around, "SLURM_JOB_NODELIST"),
                        .node = variable(around, "SLURMD_NODENAME"),
                        .cpus = variable(around, "SLURM_CPUS_PER_TASK")},
                       clock);
}

SlurmTaskPlace slurm_task(const Surroundings& around, const std::string& folder) {
  return {.folder = folder,
          .machine = static_cast<size_t>(
              std::clamp<int64_t>(number_variable(around, "TERN_MACHINE"), 0, 100'000)),
          .peers = variable(around, "TERN_PEERS"),
          .node = variable(around, "SLURMD_NODENAME"),
          .home = around.cloud.home};
}

}  // namespace

Result<int> agent_command(const Surroundings& surroundings, const Arguments& arguments) {
  if (arguments.empty()) return fail(Code::invalid, "`tern agent` is for other terns");
  if (surroundings.state.empty() || surroundings.cloud.home.empty()) {
    return fail(Code::failed_precondition, "HOME is not set on this machine; set it for this user");
  }
  SystemClock clock;
  if (arguments.front() == "run" && arguments.size() == 2) {
    RETURN_IF_ERROR(
        run_agent(AgentFolder(arguments[1]), agent_place(surroundings), clock, kReadyDescriptor));
    return kExitDone;
  }
  if (arguments.front() == "slurm-job" && arguments.size() == 2) {
    return slurm_job(surroundings, arguments[1], clock);
  }
  if (arguments.front() == "slurm-prepare" && arguments.size() == 2) {
    return prepare_slurm_machine(slurm_task(surroundings, arguments[1]), clock);
  }
  if (arguments.front() == "slurm-task" && arguments.size() == 2) {
    return become_slurm_task(slurm_task(surroundings, arguments[1]));
  }
  ASSIGN_OR_RETURN(const Json request, read_request());
  ASSIGN_OR_RETURN(const Json said, answer(arguments.front(), request, surroundings, clock));
  fmt::print("{}\n", said.dump(-1, ' ', false, Json::error_handler_t::replace));
  return kExitDone;
}

}  // namespace tern
