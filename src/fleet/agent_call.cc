#include "fleet/agent_call.h"

#include <fmt/format.h>

#include "core/system_files.h"
#include "fleet/json_fields.h"
#include "fleet/on_all.h"

namespace tern {
namespace {

using Json = nlohmann::json;

// A little longer than ssh tries to connect, so that its reason is told.
constexpr Milliseconds kStatusMax{12'000};
constexpr Milliseconds kSetupMax = std::chrono::hours(2);

// What tern's exit codes mean (docs/errors.md); tern never renumbers them.
Code code_of_exit(int exit_code) {
  switch (exit_code) {
    case 2: return Code::invalid;
    case 3: return Code::not_found;
    case 4: return Code::corrupt;
    case 5: return Code::failed_precondition;
    case 6: return Code::unavailable;
    default: return Code::internal;
  }
}

Error explain_answer(const MachineShell& shell, const std::string& tern,
                     const ChildAnswer& answer) {
  const std::string& name = shell.machine().name;
  constexpr std::string_view kPrefix = "tern: ";
  const size_t begin = answer.err.rfind(kPrefix, answer.err.size());
  if (answer.exit_code == 127 || answer.exit_code == 126) {
    return fail(Code::not_found,
                fmt::format("machine {}: {} is not there any more; launch the run again, which "
                            "brings it back",
                            name, tern));
  }
  if (begin == Bytes::npos) return explain_exit(shell.machine(), "tern agent", answer);
  // It may have several lines: where LibTorch was looked for.
  std::string said = answer.err.substr(begin + kPrefix.size());
  while (said.ends_with('\n')) said.pop_back();
  return fail(code_of_exit(answer.exit_code), fmt::format("machine {}: {}", name, said));
}

}  // namespace

Result<Json> ask_agent(const MachineShell& shell, const std::string& tern,
                       const AgentQuestion& question, std::stop_token stop) {
  ASSIGN_OR_RETURN(
      const ChildAnswer answer,
      shell.run({.script = fmt::format("exec {} agent {}", quote_shell(tern), question.verb),
                 .input = question.request.dump(-1, ' ', false, Json::error_handler_t::replace),
                 .output_bytes_max = 8 << 20,
                 .limit = question.limit},
                stop));
  if (answer.exit_code != 0) return explain_answer(shell, tern, answer);
  Json json = Json::parse(answer.out, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return fail(Code::corrupt,
              fmt::format("machine {}: {} does not answer as tern does; launch the run again",
                          shell.machine().name, tern));
}

Result<bool> ask_for_setup(const MachineShell& shell, const std::string& tern,
                           const std::vector<std::string>& commands, std::stop_token stop) {
  ASSIGN_OR_RETURN(const Json done,
                   ask_agent(shell, tern, {"setup", {{"commands", commands}}, kSetupMax}, stop));
  return number_in(done, "ran", 0) != 0;
}

Json agent_key(const LaunchedRun& run, size_t machine) {
  return {{"id", run.id}, {"machine", machine}};
}

AgentRecord parse_agent_answer(const Json& answer, int64_t started_unix_ms) {
  const auto process = [&answer](const char* key) {
    const Json json = answer.contains(key) ? answer[key] : Json();
    return ProcessName{number_in(json, "pid", 0), number_in(json, "start", 0),
                       text_in(json, "boot_id")};
  };
  return {process("agent"), process("command"), started_unix_ms};
}

Json ask_state(const LaunchedRun& run, const std::vector<MachineShell>& shells, size_t machine,
               std::stop_token stop) {
  const LaunchedMachine& launched = run.machines[machine];
  Json state = {{"state", "absent"}};
  if (!launched.tern.empty()) {
    const Result<Json> answer =
        ask_agent(shells[machine], launched.tern,
                  {.verb = "status", .request = agent_key(run, machine), .limit = kStatusMax},
                  std::move(stop));
    state = answer ? *answer : Json{{"state", "unreachable"}, {"reason", answer.error().message}};
  }
  state["machine"] = machine;
  state["name"] = launched.machine.name;
  state["address"] = launched.machine.address;
  state["spare"] = launched.machine.spare;
  if (!launched.peer.empty()) state["peer"] = launched.peer;
  return state;
}

std::vector<Json> ask_all_states(const LaunchedRun& run, const std::vector<MachineShell>& shells,
                                 std::stop_token stop) {
  return on_all(shells.size(), [&](size_t i) { return ask_state(run, shells, i, stop); });
}

Status remove_all_agents(const LaunchedRun& run, const std::vector<MachineShell>& shells,
                         Milliseconds grace, std::stop_token stop) {
  const auto answers = on_all(shells.size(), [&](size_t i) -> Result<Json> {
    if (run.machines[i].tern.empty()) {
      shells[i].close_connection();
      return Json();
    }
    Json request = agent_key(run, i);
    request["grace_ms"] = grace.count();
    const Milliseconds limit = grace + Milliseconds(60'000);
    Result<Json> answer =
        ask_agent(shells[i], run.machines[i].tern, {"remove", request, limit}, stop);
    shells[i].close_connection();
    return answer;
  });
  return all_good(answers);
}

}  // namespace tern
