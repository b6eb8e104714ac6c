#include "fleet/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/token.h"
#include "fleet/agent_call.h"
#include "fleet/json_fields.h"
#include "fleet/on_all.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr int kRoundsMax = 20;

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("::1:");
}

Result<Json> ask_peer(const LaunchedRun& run, const std::vector<MachineShell>& shells, size_t i,
                      std::stop_token stop) {
  const LaunchedMachine& launched = run.machines[i];
  const Json request = {
      {"interface", launched.machine.is_local() ? "127.0.0.1" : launched.machine.interface}};
  ASSIGN_OR_RETURN(Json answer,
                   ask_agent(shells[i], launched.tern, {.verb = "meet", .request = request}, stop));
  if (!text_in(answer, "address").empty()) return answer;
  return fail(Code::corrupt, fmt::format("machine {}: it does not say where it can be reached",
                                         launched.machine.name));
}

// Another machine cannot reach what is loopback to this one.
Status refuse_loopback(const LaunchedRun& run, const std::vector<Result<Json>>& answers) {
  std::set<std::string> boots;
  for (const Result<Json>& answer : answers) boots.insert(text_in(*answer, "boot_id"));
  if (boots.size() == 1) return {};
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string address = text_in(*answers[i], "address");
    if (!is_loopback(address)) continue;
    return fail(Code::failed_precondition,
                fmt::format("machine {}: its sshd was reached at {}, where the other machines "
                            "cannot reach it; name an address of it in the hosts file: interface "
                            "= \"10.0.0.4\"",
                            run.machines[i].machine.name, address.substr(0, address.rfind(':'))));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> find_peers(const LaunchedRun& run,
                                            const std::vector<MachineShell>& shells,
                                            std::stop_token stop) {
  auto answers = on_all(shells.size(), [&](size_t i) { return ask_peer(run, shells, i, stop); });
  RETURN_IF_ERROR(all_good(answers));
  RETURN_IF_ERROR(refuse_loopback(run, answers));
  std::vector<std::string> peers;
  for (size_t i = 0; i < answers.size(); ++i) {
    // Two agents of one machine may have drawn one port.
    for (int k = 0; std::ranges::count(peers, text_in(*answers[i], "address")) > 0; ++k) {
      if (k == kRoundsMax) return fail(Code::exhausted, "there are not enough free ports");
      answers[i] = ask_peer(run, shells, i, stop);
      if (!answers[i]) return answers[i].error();
    }
    peers.push_back(text_in(*answers[i], "address"));
  }
  return peers;
}

Status check_shared_folder(const LaunchedRun& run, const std::vector<MachineShell>& shells,
                           const std::string& folder, std::stop_token stop) {
  ASSIGN_OR_RETURN(const std::string token, random_token());
  Json request = {{"folder", folder}, {"token", token}, {"act", "leave"}};
  const auto ask = [&](size_t i) {
    return ask_agent(shells[i], run.machines[i].tern, {.verb = "share", .request = request}, stop);
  };
  ASSIGN_OR_RETURN(const Json left, ask(0));
  request["levels"] = number_in(left, "levels", 0);
  request["act"] = "see";
  const auto seen = on_all(shells.size(), [&](size_t i) -> Result<Json> {
    ASSIGN_OR_RETURN(Json answer, ask(i));
    if (number_in(answer, "seen", 0) == 1) return answer;
    return fail(Code::failed_precondition,
                fmt::format("machine {}: the run's folder {} is another there than on {}; give "
                            "--run a bucket (s3://bucket/prefix), or a folder that all machines "
                            "share",
                            run.machines[i].machine.name, folder, run.machines[0].machine.name));
  });
  request["act"] = "clear";
  const Result<Json> cleared = ask(0);
  RETURN_IF_ERROR(all_good(seen));
  if (!cleared) return cleared.error();
  return {};
}

}  // namespace tern
