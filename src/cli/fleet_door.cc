#include "cli/fleet_door.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/crypto.h"
#include "core/stdio.h"
#include "fleet/agent_call.h"
#include "fleet/json_fields.h"
#include "fleet/launch.h"
#include "fleet/on_all.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLogPartBytes = 1 << 20;
constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(300);
constexpr Nanoseconds kComesBackWithin = std::chrono::seconds(30);
constexpr Milliseconds kLogMax{15'000};  // one machine must not hold up the others for long

// One machine's log: how far it was printed, and a line that is not whole yet.
struct LogState {
  size_t machine = 0;
  int64_t offset = 0;
  std::string begun;
  std::string complaint;  // the last that was told
};

struct LogNews {
  Bytes text;
  int64_t next = 0;
  bool runs = false;
};

Result<LogNews> ask_log(const OpenedRun& opened, const LogState& log, std::stop_token stop) {
  Json request = agent_key(opened.run, log.machine);
  request["offset"] = log.offset;
  request["bytes_max"] = kLogPartBytes;
  ASSIGN_OR_RETURN(
      const Json answer,
      opened.slurm != nullptr
          ? opened.slurm->log(log.machine, log.offset, kLogPartBytes)
          : ask_agent(opened.shells[log.machine], opened.run.machines[log.machine].tern,
                      {.verb = "log", .request = request, .limit = kLogMax}, stop));
  LogNews news{.next = number_in(answer, "next", log.offset),
               .runs = text_in(answer, "state") == "running"};
  ASSIGN_OR_RETURN(news.text, decode_base64(text_in(answer, "log")));
  return news;
}

bool may_come_back(const Error& error) {
  return error.code == Code::unavailable || error.code == Code::deadline_exceeded;
}

void print_lines(const std::string& prefix, LogState& log, const Bytes& text, bool is_last) {
  log.begun += text;
  for (size_t end = log.begun.find('\n'); end != std::string::npos; end = log.begun.find('\n')) {
    fmt::print("{}{}\n", prefix, log.begun.substr(0, end));
    log.begun.erase(0, end + 1);
  }
  if (is_last && !log.begun.empty()) fmt::print("{}{}\n", prefix, std::exchange(log.begun, ""));
}

}  // namespace

Result<LaunchedRuns> open_launched_runs(const Surroundings& surroundings) {
  if (!surroundings.state.empty()) return LaunchedRuns(surroundings.state);
  return fail(Code::failed_precondition,
              "neither HOME nor XDG_STATE_HOME is set, and records of launched runs are kept "
              "there; set one of them");
}

AgentPlace agent_place(const Surroundings& surroundings) {
  return {.executable = surroundings.executable,
          .agents = surroundings.state / "agents",
          .home = surroundings.cloud.home};
}

SshSetup ssh_setup(const Surroundings& surroundings) {
  return {.config = surroundings.ssh_config,
          .control_folder = make_control_folder(surroundings.runtime)};
}

HostsPlace hosts_place(const Surroundings& surroundings, Clock& clock) {
  const std::filesystem::path home = surroundings.cloud.home;
  const SshSetup ssh{.config = surroundings.ssh_config};
  return {
      .ssh_config = ssh.config.empty() ? home / ".ssh/config" : ssh.config,
      .home = home,
      .ask_ssh = [ssh, &clock](const std::string& name) { return ask_ssh_for(name, ssh, clock); }};
}

Result<OpenedRun> open_launched_run(const Surroundings& surroundings, const std::string& name,
                                    Clock& clock) {
  if (name.empty()) {
    return fail(Code::invalid, "which launched run? `tern status` lists them");
  }
  ASSIGN_OR_RETURN(const LaunchedRuns runs, open_launched_runs(surroundings));
  ASSIGN_OR_RETURN(LaunchedRun run, runs.open(name));
  if (run.slurm_job != 0) {
    auto job = std::make_shared<SlurmJob>(run, surroundings.state, clock);
    return OpenedRun{std::move(run), {}, std::move(job)};
  }
  std::vector<MachineShell> shells = open_shells(run, ssh_setup(surroundings), clock);
  return OpenedRun{std::move(run), std::move(shells), nullptr};
}

std::vector<Json> ask_states(const OpenedRun& opened) {
  if (opened.slurm != nullptr) return opened.slurm->states();
  return ask_all_states(opened.run, opened.shells);
}

std::string describe_state(const Json& state) {
  const std::string word = text_in(state, "state");
  if (word == "ended") return fmt::format("ended with {}", number_in(state, "exit_code", -1));
  return word;
}

int outcome_of(const std::vector<Json>& states) {
  std::vector<int64_t> codes;
  for (const Json& state : states) {
    if (text_in(state, "role") == "resting" || text_in(state, "state") != "ended") continue;
    const int64_t code = number_in(state, "exit_code", kExitUnavailable);
    codes.push_back(code < 0 ? 128 - code : code);
  }
  for (const int64_t best : {kExitDone, kExitStopped, kExitPreempted}) {
    if (std::ranges::count(codes, best) > 0) return static_cast<int>(best);
  }
  return codes.empty() ? kExitUnavailable : static_cast<int>(codes.front());
}

Status print_logs(const OpenedRun& opened, const LogWish& wish, Clock& clock,
                  std::stop_token stop) {
  std::vector<LogState> logs;
  for (const size_t machine : wish.machines) logs.push_back({.machine = machine});
  Nanoseconds alone_since = clock.now();  // when one that is reached was seen running last
  for (bool goes_on = true; goes_on && !stop.stop_requested();) {
    const auto news = on_all(logs.size(), [&](size_t i) { return ask_log(opened, logs[i], stop); });
    if (stop.stop_requested()) return {};
    goes_on = false;
    bool has_more = false;
    bool is_waited_for = false;  // one that cannot be reached now
    bool has_ended = false;
    for (size_t i = 0; i < logs.size(); ++i) {
      // A machine that cannot be reached for a moment is asked again; one that is gone says so.
      if (!news[i] && !(wish.follow && may_come_back(news[i].error()))) return news[i].error();
      if (!news[i]) {
        if (logs[i].complaint != news[i].error().message) {
          logs[i].complaint = news[i].error().message;
          write_stderr(fmt::format("tern: {}\n", logs[i].complaint));
        }
        is_waited_for = true;
        continue;
      }
      const bool is_full = std::ssize(news[i]->text) == kLogPartBytes;
      const bool is_last = !is_full && !(wish.follow && news[i]->runs);
      const std::string& name = opened.run.machines[logs[i].machine].machine.name;
      print_lines(logs.size() > 1 ? fmt::format("[{}] ", name) : "", logs[i], news[i]->text,
                  is_last);
      logs[i].offset = news[i]->next;
      has_more = has_more || is_full;
      goes_on = goes_on || !is_last;
      has_ended = has_ended || is_last;
    }
    if (goes_on || !has_ended) alone_since = clock.now();
    // Where the run has ended on all others, one that does not come back was lost with its machine.
    goes_on = goes_on || (is_waited_for && clock.now() - alone_since < kComesBackWithin);
    std::fflush(stdout);
    if (goes_on && !has_more) clock.wait_for(kLookEvery, stop);
  }
  return {};
}

}  // namespace tern
