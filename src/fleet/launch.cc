#include "fleet/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/token.h"
#include "fleet/agent_call.h"
#include "fleet/fetch_libtorch.h"
#include "fleet/json_fields.h"
#include "fleet/meeting.h"
#include "fleet/on_all.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr Milliseconds kFetchMax = std::chrono::hours(2);
constexpr Milliseconds kStartMax{60'000};

// One launch, from the record to the running command.
class Launch {
 public:
  Launch(const LaunchSetup& setup, LaunchedRun run, std::string secret, const LaunchedRuns& runs,
         Clock& clock, std::stop_token stop)
      : setup_(setup),
        run_(std::move(run)),
        secret_(std::move(secret)),
        runs_(runs),
        clock_(clock),
        stop_(std::move(stop)),
        shells_(open_shells(run_, setup.ssh, clock)) {}

  Status carry_out() {
    RETURN_IF_ERROR(bring_tern());
    // From here on `down` can clean up, whatever happens to this process.
    RETURN_IF_ERROR(runs_.update(run_));
    RETURN_IF_ERROR(all_good(on_all(shells_.size(), [this](size_t i) { return prepare(i); })));
    if (shells_.size() > 1) RETURN_IF_ERROR(meet());
    RETURN_IF_ERROR(start());
    return runs_.update(run_);
  }

  void take_back() {
    const Status removed = remove_all_agents(run_, shells_, Milliseconds(0));
    if (!removed) {
      setup_.tell(fmt::format("not everything could be taken back: {}; `tern down {}` tries again",
                              removed.error().message, run_.name));
    } else if (const Status gone = runs_.remove(run_.name); !gone) {
      setup_.tell(gone.error().message);
    }
  }

  LaunchedRun take_run() { return std::move(run_); }

 private:
  const std::string& name(size_t i) const { return run_.machines[i].machine.name; }

  Status bring_tern();
  Result<Json> prepare(size_t i);
  Status bring_libtorch(size_t i);
  Status meet();
  Status start();

  const LaunchSetup& setup_;
  LaunchedRun run_;
  const std::string secret_;
  const LaunchedRuns& runs_;
  Clock& clock_;
  const std::stop_token stop_;
  std::vector<MachineShell> shells_;
  std::string peers_;  // "10.0.0.4:20317 10.0.0.5:21111"; empty: there is one machine
};

Status Launch::bring_tern() {
  bool all_local = true;
  for (LaunchedMachine& launched : run_.machines) {
    all_local = all_local && launched.machine.is_local();
    if (launched.machine.is_local()) launched.tern = setup_.executable.string();
  }
  if (all_local) return {};
  ASSIGN_OR_RETURN(const Bundle bundle, pack_bundle(setup_.bundle, setup_.cache, clock_, stop_));
  const auto placed = on_all(shells_.size(), [&](size_t i) -> Result<PlacedBundle> {
    if (run_.machines[i].machine.is_local()) return PlacedBundle();
    const Nanoseconds began = clock_.now();
    Result<PlacedBundle> there = place_bundle(shells_[i], bundle, stop_);
    if (!there) return there;
    RETURN_IF_ERROR(check_tern(shells_[i], there->tern(), setup_.version, stop_));
    setup_.tell(there->sent ? fmt::format("{}: tern was sent, {:.1f} MB in {:.1f} s", name(i),
                                          static_cast<double>(bundle.size_bytes) / 1e6,
                                          to_seconds(clock_.now() - began))
                            : fmt::format("{}: tern is there already", name(i)));
    return there;
  });
  for (size_t i = 0; i < placed.size(); ++i) {
    if (placed[i] && !placed[i]->folder.empty()) run_.machines[i].tern = placed[i]->tern();
  }
  return all_good(placed);
}

Result<Json> Launch::prepare(size_t i) {
  const std::string& tern = run_.machines[i].tern;
  if (!run_.setup.empty()) {
    ASSIGN_OR_RETURN(const bool ran, ask_for_setup(shells_[i], tern, run_.setup, stop_));
    setup_.tell(fmt::format("{}: setup {}", name(i), ran ? "done" : "was done before"));
  }
  // Agents on this machine are on one machine, which the first of them asks.
  const bool is_local = run_.machines[i].machine.is_local();
  if (setup_.needs_trainer && (!is_local || i == 0)) {
    if (!is_local) RETURN_IF_ERROR(bring_libtorch(i));
    RETURN_IF_ERROR(pass_doctor(shells_[i], tern, stop_));
    setup_.tell(fmt::format("{}: doctor finds nothing that stops it", name(i)));
  }
  return Json();
}

// Found where its user has it, or fetched once.
Status Launch::bring_libtorch(size_t i) {
  const std::string& tern = run_.machines[i].tern;
  ASSIGN_OR_RETURN(const Json found,
                   ask_agent(shells_[i], tern, {"libtorch", {{"fetch", 0}}}, stop_));
  if (number_in(found, "missing", 0) == 0) return {};
  setup_.tell(fmt::format(
      "{}: LibTorch is not there and is fetched ({} MB, with a GPU 4.7 GB); that is done once",
      name(i), kLibTorchDownloadMb));
  const Nanoseconds began = clock_.now();
  RETURN_IF_ERROR(ask_agent(shells_[i], tern, {"libtorch", {{"fetch", 1}}, kFetchMax}, stop_));
  setup_.tell(fmt::format("{}: LibTorch was fetched in {:.0f} s", name(i),
                          to_seconds(clock_.now() - began)));
  return {};
}

// Machines that train one run must see the same run, and each other.
Status Launch::meet() {
  bool all_local = true;
  for (const LaunchedMachine& each : run_.machines) {
    all_local = all_local && each.machine.is_local();
  }
  if (!setup_.run_folder.empty() && !all_local) {
    RETURN_IF_ERROR(check_shared_folder(run_, shells_, setup_.run_folder, stop_));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> peers, find_peers(run_, shells_, stop_));
  for (size_t i = 0; i < peers.size(); ++i) run_.machines[i].peer = peers[i];
  peers_ = fmt::format("{}", fmt::join(peers, " "));
  return {};
}

Status Launch::start() {
  const auto started = on_all(shells_.size(), [this](size_t i) {
    AgentRequest request = setup_.request;
    request.id = run_.id;
    request.machine = static_cast<int64_t>(i);
    request.ranks = run_.machines[i].machine.ranks;
    request.secret = secret_;
    request.environment["TERN_MACHINE"] = std::to_string(i);
    request.environment["TERN_MACHINES"] = std::to_string(run_.working());
    if (!peers_.empty()) request.environment["TERN_PEERS"] = peers_;
    return ask_agent(shells_[i], run_.machines[i].tern, {"start", to_json(request), kStartMax},
                     stop_);
  });
  RETURN_IF_ERROR(all_good(started));
  for (size_t i = 0; i < started.size(); ++i) {
    run_.machines[i].agent = parse_agent_answer(*started[i], clock_.unix_ms());
    setup_.tell(
        fmt::format("{}: started, process {}", name(i), run_.machines[i].agent.command.pid));
  }
  return {};
}

}  // namespace

std::vector<MachineShell> open_shells(const LaunchedRun& run, const SshSetup& ssh, Clock& clock) {
  std::vector<MachineShell> shells;
  shells.reserve(run.machines.size());
  for (const LaunchedMachine& launched : run.machines) {
    shells.emplace_back(launched.machine, ssh, clock);
  }
  return shells;
}

Result<LaunchedRun> launch(const LaunchSetup& setup, const LaunchedRuns& runs, Clock& clock,
                           std::stop_token stop) {
  LaunchedRun run = setup.run;
  run.created_unix_ms = clock.unix_ms();
  ASSIGN_OR_RETURN(run.id, random_token());
  ASSIGN_OR_RETURN(const std::string secret, random_token());
  ASSIGN_OR_RETURN(const std::string more_secret, random_token());
  RETURN_IF_ERROR(runs.create(run, secret + more_secret));
  Launch launching(setup, std::move(run), secret + more_secret, runs, clock, std::move(stop));
  if (const Status status = launching.carry_out(); !status) {
    launching.take_back();
    return status.error();
  }
  return launching.take_run();
}

}  // namespace tern
