#include "fleet/slurm_job.h"

#include <fmt/format.h>

#include <csignal>

#include "core/token.h"
#include "fleet/agent_verbs.h"
#include "fleet/slurm_call.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(200);
constexpr Nanoseconds kAskEvery = std::chrono::seconds(2);
// Slurm's KillWait is 30 s as a rule, and what does not die holds its node after that.
constexpr Nanoseconds kDieMax = std::chrono::seconds(90);

Json job_json(int64_t job, const SlurmJobState& state) {
  return {{"job", job},
          {"state", state.state},
          {"reason", state.reason},
          {"nodes", state.nodes},
          {"restarts", state.restarts}};
}

}  // namespace

Result<LaunchedRun> launch_by_slurm(const LaunchSetup& setup, const std::filesystem::path& state,
                                    const LaunchedRuns& runs, Clock& clock) {
  RETURN_IF_ERROR(check_slurm_options(setup.slurm_options));
  LaunchedRun run = setup.run;
  run.created_unix_ms = clock.unix_ms();
  ASSIGN_OR_RETURN(run.id, random_token());
  ASSIGN_OR_RETURN(const std::string secret, random_token());
  ASSIGN_OR_RETURN(const std::string more_secret, random_token());
  for (LaunchedMachine& machine : run.machines) machine.tern = setup.executable.string();
  RETURN_IF_ERROR(runs.create(run, secret + more_secret));
  const SlurmFolder folder = SlurmFolder::of_run(state, run.id);
  const auto submit = [&]() -> Result<int64_t> {
    SlurmRequest request{.command = setup.request,
                         .machines = std::ssize(run.machines),
                         .setup = setup.run.setup,
                         .tern = setup.executable.string()};
    request.command.id = run.id;
    request.command.ranks = run.machines.front().machine.ranks;
    RETURN_IF_ERROR(folder.lay_out(request, secret + more_secret));
    // Without a stop: a job whose number nobody has read could not be ended.
    ASSIGN_OR_RETURN(const Bytes said, ask_slurm(sbatch_command({.name = run.name,
                                                                 .machines = request.machines,
                                                                 .script = folder.script(),
                                                                 .log = folder.log(0),
                                                                 .folder = setup.request.folder,
                                                                 .options = setup.slurm_options}),
                                                 clock));
    return parse_sbatch(said);
  };
  const Result<int64_t> job = submit();
  if (!job) {
    folder.remove();
    RETURN_IF_ERROR(runs.remove(run.name));
    return job.error();
  }
  run.slurm_job = *job;
  RETURN_IF_ERROR(runs.update(run));
  return run;
}

SlurmJob::SlurmJob(LaunchedRun run, const std::filesystem::path& state, Clock& clock)
    : run_(std::move(run)), folder_(SlurmFolder::of_run(state, run_.id)), clock_(clock) {}

Result<SlurmJobState> SlurmJob::ask() const {
  const Result<Bytes> said = ask_slurm({"scontrol", "show", "job", "-o", job()}, clock_);
  if (said) return parse_scontrol_job(*said);
  if (said.error().code != Code::not_found) return said.error();
  // It has forgotten the job, minutes after its end.
  const Result<Bytes> kept =
      ask_slurm({"sacct", "-X", "-n", "-P", "-j", job(), "-o", "State,ExitCode"}, clock_);
  if (kept) {
    if (Result<SlurmJobState> state = parse_sacct(*kept)) return state;
  }
  SlurmJobState gone;
  const auto end = folder_.end().end();
  gone.state = end ? (end->exit_code == 0 ? "COMPLETED" : "FAILED") : "CANCELLED";
  gone.exit_code = end ? end->exit_code : -SIGKILL;
  return gone;
}

std::vector<Json> SlurmJob::states() const {
  const Result<SlurmJobState> state = ask();
  const auto end = folder_.end().end();
  std::vector<std::string> nodes;
  if (state && !state->nodes.empty()) {
    const Result<Bytes> said = ask_slurm({"scontrol", "show", "hostnames", state->nodes}, clock_);
    if (said) nodes = parse_hostnames(*said);
  }
  std::vector<Json> states;
  for (size_t i = 0; i < run_.machines.size(); ++i) {
    Json machine = agent_status(folder_.path(), folder_.mark(i));
    if (!state) {
      machine["state"] = "unreachable";
      machine["reason"] = state.error().message;
    } else if (state->is_waiting()) {
      machine["state"] = "pending";
      machine["reason"] = fmt::format("Slurm: {}", state->reason);
    } else if (state->is_alive()) {
      machine["state"] = "running";
    } else {
      machine["state"] = "ended";
      machine["exit_code"] = end ? end->exit_code : state->exit_code;
    }
    if (state) machine["slurm"] = job_json(run_.slurm_job, *state);
    machine["machine"] = i;
    machine["name"] = run_.machines[i].machine.name;
    machine["address"] = i < nodes.size() ? nodes[i] : "";
    states.push_back(std::move(machine));
  }
  return states;
}

Result<Json> SlurmJob::log(size_t machine, int64_t offset, int64_t bytes_max) const {
  bool is_alive = false;
  {
    const MutexLock lock(mutex_);
    if (was_alive_ && (asked_.count() == 0 || clock_.now() - asked_ >= kAskEvery)) {
      const Result<SlurmJobState> state = ask();
      // Slurm that does not answer for a moment says nothing about the job.
      was_alive_ = !state || state->is_alive();
      asked_ = clock_.now();
    }
    is_alive = was_alive_;
  }
  // After the question: what was written until the end is then in the log.
  ASSIGN_OR_RETURN(Json part, agent_log(folder_.path(), folder_.mark(machine), offset, bytes_max));
  part["state"] = is_alive ? "running" : "ended";
  return part;
}

Status SlurmJob::preempt(size_t machine) const {
  ASSIGN_OR_RETURN(const Bytes said,
                   ask_slurm({"squeue", "--steps", "-h", "-j", job(), "-o", "%i|%j"}, clock_));
  const auto steps = parse_steps(said);
  const auto step = steps.find(slurm_step_name(machine));
  if (step == steps.end()) {
    return fail(Code::failed_precondition,
                fmt::format("nothing of it runs on machine {} just now; `tern status {}` shows "
                            "whether the job waits",
                            machine, run_.name));
  }
  const Result<Bytes> told = ask_slurm({"scancel", "--signal=TERM", step->second}, clock_);
  // One that leaves at once is gone before Slurm has an answer for us.
  if (!told && told.error().code != Code::not_found) return told.error();
  return {};
}

// A job that has ended does not take it, which is as well.
Status SlurmJob::forbid_requeue() const {
  const Result<Bytes> said =
      ask_slurm({"scontrol", "update", "jobid=" + job(), "Requeue=0"}, clock_);
  if (said) return {};
  ASSIGN_OR_RETURN(const SlurmJobState state, ask());
  if (!state.is_alive()) return {};
  return said.error();
}

bool SlurmJob::wait_for_end(Nanoseconds limit) const {
  const Nanoseconds deadline = clock_.now() + limit;
  for (;;) {
    const Result<SlurmJobState> state = ask();
    if (state && !state->is_alive()) return true;
    if (clock_.now() >= deadline) return false;
    clock_.wait_for(kLookEvery, {});
  }
}

Result<bool> SlurmJob::stop(Nanoseconds limit) const {
  RETURN_IF_ERROR(forbid_requeue());
  ASSIGN_OR_RETURN(const SlurmJobState state, ask());
  if (!state.is_alive()) return true;
  std::vector<std::string> cancel = {"scancel", job()};
  // Slurm signals all processes of a step: a program must get what it saves itself at.
  const Result<SlurmRequest> request = folder_.read_request();
  const bool is_program = request && request->command.is_program;
  if (!state.is_waiting()) {
    cancel.insert(cancel.begin() + 1, is_program ? "--signal=TERM" : "--signal=INT");
  }
  const Result<Bytes> told = ask_slurm(cancel, clock_);
  if (!told) return told.error();
  return wait_for_end(limit);
}

Status SlurmJob::remove(Nanoseconds grace) const {
  RETURN_IF_ERROR(forbid_requeue());
  ASSIGN_OR_RETURN(const SlurmJobState state, ask());
  if (state.is_alive() && !state.is_waiting()) {
    const char* signal = grace.count() > 0 ? "--signal=TERM" : "--signal=KILL";
    const Result<Bytes> told = ask_slurm({"scancel", signal, job()}, clock_);
    if (told && grace.count() > 0) wait_for_end(grace);
  }
  const Result<Bytes> cancelled = ask_slurm({"scancel", job()}, clock_);
  if (!wait_for_end(kDieMax)) {
    return fail(Code::unavailable,
                fmt::format("job {0} does not end{1}; look with `scontrol show job {0}`, and try "
                            "again",
                            job(), cancelled ? "" : " (" + cancelled.error().message + ")"));
  }
  folder_.remove();
  return {};
}

Result<std::string> SlurmJob::node(size_t machine) const {
  ASSIGN_OR_RETURN(const SlurmJobState state, ask());
  if (!state.is_alive() || state.nodes.empty()) {
    return fail(
        Code::failed_precondition,
        fmt::format("the job has no machines just now ({}{}{}); `tern status {}` shows when "
                    "it has",
                    state.state, state.reason.empty() ? "" : ", ", state.reason, run_.name));
  }
  ASSIGN_OR_RETURN(const Bytes said,
                   ask_slurm({"scontrol", "show", "hostnames", state.nodes}, clock_));
  const std::vector<std::string> names = parse_hostnames(said);
  if (machine < names.size()) return names[machine];
  return fail(Code::not_found, fmt::format("the job has {} machines", names.size()));
}

Result<std::vector<std::string>> SlurmJob::shell(size_t machine, const std::string& script) const {
  ASSIGN_OR_RETURN(const std::string there, node(machine));
  std::vector<std::string> words = {"srun",      "--jobid=" + job(), "--overlap",
                                    "--nodes=1", "--ntasks=1",       "--nodelist=" + there};
  if (script.empty()) {
    words.insert(words.end(), {"--pty", "sh", "-i"});
  } else {
    words.insert(words.end(), {"sh", "-c", script});
  }
  return words;
}

}  // namespace tern
