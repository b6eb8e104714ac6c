// `tern agent VERB`: what a launched run's machines are asked, by `tern` on the machine that
// launched it. Hidden: requests come as JSON by stdin and answers go as JSON to stdout.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/fleet_door.h"
#include "fleet/agent_verbs.h"
#include "fleet/json_fields.h"
#include "fleet/setup_commands.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

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

Result<Json> start(const AgentRequest& request, const AgentPlace& place) {
  ASSIGN_OR_RETURN(const AgentRecord record, start_agent(request, place));
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
  ASSIGN_OR_RETURN(const SetupResult done, run_setup_commands(commands, surroundings.cache,
                                                              surroundings.cloud.home, clock));
  return Json{{"ran", done.ran ? 1 : 0}, {"log", done.log.string()}};
}

Result<Json> answer(const std::string& verb, const Json& json, const Surroundings& surroundings,
                    Clock& clock) {
  const AgentPlace place = agent_place(surroundings);
  if (verb == "setup") return setup(json, surroundings, clock);
  ASSIGN_OR_RETURN(const AgentRequest request, parse_agent_request(json.dump()));
  const std::string mark = request.mark();
  if (verb == "start") return start(request, place);
  if (verb == "status") return agent_status(place.agents, mark);
  if (verb == "log") {
    return agent_log(place.agents, mark, number_in(json, "offset", 0),
                     std::min<int64_t>(number_in(json, "bytes_max", 0), 4 << 20));
  }
  if (verb == "preempt" || verb == "stop") {
    RETURN_IF_ERROR(notify_agent(place.agents, mark, verb));
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
  ASSIGN_OR_RETURN(const Json request, read_request());
  ASSIGN_OR_RETURN(const Json said, answer(arguments.front(), request, surroundings, clock));
  fmt::print("{}\n", said.dump(-1, ' ', false, Json::error_handler_t::replace));
  return kExitDone;
}

}  // namespace tern
