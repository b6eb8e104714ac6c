#include "fleet/slurm_driver.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <thread>

#include "core/mutex.h"
#include "core/stdio.h"
#include "fleet/child_process.h"
#include "fleet/marked_processes.h"
#include "fleet/on_all.h"
#include "fleet/slurm_call.h"
#include "fleet/slurm_files.h"
#include "fleet/slurm_peers.h"
#include "fleet/slurm_plan.h"
#include "fleet/slurm_text.h"
#include "storage/file_door.h"

namespace tern {
namespace {

// A requeued job may start again so long after its last process has ended; it is set while the job
// still ends, and a time that has passed by then would be replaced by Slurm's own two minutes.
constexpr int kBackAfterSeconds = 10;
// Until what Slurm takes has ended, with what it is given for that (KillWait, usually 30 s).
constexpr int kTakenSeconds = 40;
constexpr int kLost = -1;  // nobody knows how it ended
// Of docs/errors.md; tern never renumbers them.
constexpr int kNotReached = 6;
constexpr int kStopped = 10;
constexpr int kPreempted = 75;
constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(50);
constexpr Nanoseconds kTellEvery = std::chrono::seconds(5);
// Of srun, to prepare a machine: 7.5 s in all.
constexpr int kTriesMax = 6;
constexpr Nanoseconds kTryAgainAfter = std::chrono::milliseconds(500);

void say(const std::string& sentence) { write_stderr(fmt::format("tern: {}\n", sentence)); }

// One job, from its first step to its end. All but run_step() on the main thread.
class SlurmDriver {
 public:
  SlurmDriver(const SlurmJobPlace& place, SlurmRequest request, Clock& clock)
      : place_(place),
        folder_(place.folder),
        request_(std::move(request)),
        clock_(clock),
        plan_(static_cast<size_t>(request_.machines), place.restarts,
              request_.command.is_program ? SlurmPlan::Command::program
                                          : SlurmPlan::Command::training),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        steps_(static_cast<size_t>(request_.machines)) {}

  Result<int> run(int signals);

 private:
  struct End {
    size_t machine = 0;
    int exit_code = 0;
  };

  SlurmStepStart step_for(size_t machine, const char* verb) const;
  // Nothing if all machines are ready, else what becomes of the job.
  std::optional<SlurmPlan::Outcome> prepare();
  int prepare_one(size_t machine) const;
  Status start(size_t machine);
  // On a thread of its own, which ends with srun.
  void run_step(size_t machine, const std::vector<std::string>& command);
  void wait(int signals);
  void take_signals(int signals);
  void take_ends();
  void tell_to_leave();
  void wait_for_the_lost();
  int end(const SlurmPlan::Outcome& outcome);
  void set_start(int seconds);
  std::string job() const { return std::to_string(place_.job); }

  const SlurmJobPlace& place_;
  const SlurmFolder folder_;
  const SlurmRequest request_;
  Clock& clock_;
  SlurmPlan plan_;
  const FileDescriptor wake_;
  std::vector<std::string> peers_;
  int64_t peers_attempt_ = -1;
  Nanoseconds told_{0};
  bool is_taken_ = false;

  Mutex mutex_;
  std::vector<End> ends_ GUARDED_BY(mutex_);
  std::vector<std::jthread> steps_;  // last: they use all of the above
};

SlurmStepStart SlurmDriver::step_for(size_t machine, const char* verb) const {
  SlurmStepStart step{.machine = machine,
                      .environment = request_.command.environment,
                      .cpus = place_.cpus,
                      .command = {request_.tern, "agent", verb, folder_.path().string()}};
  step.environment[kMarkVariable] = folder_.mark(machine);
  step.environment["TERN_MACHINE"] = std::to_string(machine);
  step.environment["TERN_MACHINES"] = std::to_string(request_.machines);
  return step;
}

// All at once, and the command starts only when all of them are ready.
std::optional<SlurmPlan::Outcome> SlurmDriver::prepare() {
  if (request_.command.is_program && request_.setup.empty()) return std::nullopt;
  std::optional<SlurmPlan::Outcome> outcome;
  for (const int code :
       on_all(steps_.size(), [this](size_t machine) { return prepare_one(machine); })) {
    if (code == 0 || (outcome && !outcome->requeue)) continue;
    // It was told to leave, or its node is lost.
    const bool comes_back = code == -SIGTERM || code == kLost;
    const int told = code == -SIGINT ? kStopped : code < 0 ? 128 - code : code;
    outcome = {.requeue = comes_back, .exit_code = comes_back ? kPreempted : told};
  }
  if (outcome && !outcome->requeue) say("not all machines are fit; nothing was started");
  return outcome;
}

int SlurmDriver::prepare_one(size_t machine) const {
  SlurmStepStart step = step_for(machine, "slurm-prepare");
  step.is_heard = true;
  for (int tries = 1;; ++tries) {
    const Result<ChildAnswer> answer = run_child({.command = srun_command(step)}, clock_, {});
    if (!answer) say(answer.error().message);
    if (!answer) return kNotReached;
    write_stderr(answer->err);
    if (!has_srun_failed(answer->exit_code, answer->err) || tries == kTriesMax) {
      return parse_srun_end(answer->exit_code, answer->err);
    }
    clock_.wait_for(kTryAgainAfter * tries, {});
  }
}

Status SlurmDriver::start(size_t machine) {
  if (request_.machines > 1 && peers_attempt_ != plan_.attempt()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                     find_slurm_addresses(place_.nodes, place_.node, clock_));
    if (std::ssize(addresses) < request_.machines) {
      return fail(Code::failed_precondition,
                  fmt::format("{} machines were asked for, and Slurm gave {}", request_.machines,
                              addresses.size()));
    }
    peers_.clear();
    for (size_t i = 0; i < steps_.size(); ++i) {
      const int port = slurm_port(place_.job, place_.restarts, plan_.attempt(), i);
      peers_.push_back(fmt::format("{}:{}", addresses[i], port));
    }
    peers_attempt_ = plan_.attempt();
  }
  SlurmStepStart step = step_for(machine, "slurm-task");
  step.environment["TERN_SECRET_FILE"] = folder_.secret().string();
  step.environment["TERN_STATUS_FILE"] = folder_.status(machine).string();
  if (!peers_.empty()) step.environment["TERN_PEERS"] = fmt::format("{}", fmt::join(peers_, " "));
  plan_.started(machine, clock_.now());
  steps_[machine] =
      std::jthread([this, machine, command = srun_command(step)] { run_step(machine, command); });
  return {};
}

void SlurmDriver::run_step(size_t machine, const std::vector<std::string>& command) {
  const Result<ChildAnswer> answer = run_child({.command = command}, clock_, {});
  if (answer) write_stderr(answer->err);
  if (!answer) say(answer.error().message);
  const MutexLock lock(mutex_);
  ends_.push_back({machine, answer ? parse_srun_end(answer->exit_code, answer->err) : kLost});
  eventfd_write(wake_.get(), 1);
}

void SlurmDriver::wait(int signals) {
  std::optional<Nanoseconds> until = plan_.next_due();
  if (plan_.must_tell_to_leave()) {
    until = until ? std::min(*until, told_ + kTellEvery) : told_ + kTellEvery;
  }
  int wait_ms = -1;
  if (until) {
    const auto left = std::chrono::duration_cast<Milliseconds>(*until - clock_.now()).count() + 1;
    wait_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }
  pollfd events[] = {{signals, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  poll(events, 2, wait_ms);
  take_signals(signals);
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
}

void SlurmDriver::take_signals(int signals) {
  signalfd_siginfo info{};
  while (read(signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGTERM || is_taken_) continue;
    is_taken_ = true;
    plan_.taken();
    say("Slurm takes the job; what runs saves itself");
    set_start(kTakenSeconds);
  }
}

void SlurmDriver::take_ends() {
  std::vector<End> ends;
  {
    const MutexLock lock(mutex_);
    ends.swap(ends_);
  }
  for (const End& end : ends) {
    steps_[end.machine].join();
    plan_.ended(end.machine, end.exit_code, clock_.now());
    say(fmt::format("machine {} ended with {}", end.machine, end.exit_code));
  }
}

void SlurmDriver::tell_to_leave() {
  if (!plan_.must_tell_to_leave() || clock_.now() < told_ + kTellEvery) return;
  told_ = clock_.now();
  // A step that was just beginning has not heard it; all are told again until they have ended.
  const Result<Bytes> told = ask_slurm({"scancel", "--signal=TERM", job()}, clock_);
  if (!told) say(told.error().message);
}

// Only a job that waits takes it, also one whose last run is still ending. Our own scontrol may die
// of the signal that ends the rest of us.
void SlurmDriver::set_start(int seconds) {
  for (int i = 0; i < 3; ++i) {
    if (ask_slurm(
            {"scontrol", "update", "jobid=" + job(), fmt::format("StartTime=now+{}", seconds)},
            clock_)) {
      return;
    }
  }
}

// What srun has left to its fate may still be saving itself on this node, and Slurm would kill it
// with the end of the job's own process.
void SlurmDriver::wait_for_the_lost() {
  const Nanoseconds deadline = clock_.now() + std::chrono::seconds(kTakenSeconds);
  for (size_t i = 0; i < steps_.size(); ++i) {
    while (!find_marked_processes(folder_.mark(i)).empty() && clock_.now() < deadline) {
      clock_.wait_for(kLookEvery, {});
    }
  }
}

int SlurmDriver::end(const SlurmPlan::Outcome& outcome) {
  if (is_taken_) set_start(kBackAfterSeconds);
  if (outcome.requeue) {
    const Result<Bytes> requeued = ask_slurm({"scontrol", "requeue", job()}, clock_);
    if (requeued) {
      say("back to the queue; it goes on from there");
      set_start(kBackAfterSeconds);
      return outcome.exit_code;
    }
    // `tern stop` and `tern down` forbid it.
    say(fmt::format("it is not requeued ({})", requeued.error().message));
  }
  if (is_taken_ && outcome.exit_code != 0) return outcome.exit_code;
  const Status written =
      folder_.end().write_end({.exit_code = outcome.exit_code, .unix_ms = clock_.unix_ms()});
  if (!written) say(written.error().message);
  return outcome.exit_code;
}

Result<int> SlurmDriver::run(int signals) {
  if (const auto unfit = prepare()) {
    take_signals(signals);
    // What becomes of a job that Slurm takes is Slurm's to say.
    return end(is_taken_ ? SlurmPlan::Outcome{.exit_code = kPreempted} : *unfit);
  }
  for (;;) {
    for (const size_t machine : plan_.due(clock_.now())) RETURN_IF_ERROR(start(machine));
    tell_to_leave();
    if (const auto outcome = plan_.outcome()) {
      wait_for_the_lost();
      return end(*outcome);
    }
    wait(signals);
    take_ends();
  }
}

}  // namespace

Result<int> run_slurm_job(const SlurmJobPlace& place, Clock& clock) {
  // Before any thread: they inherit it.
  sigset_t taken;
  sigemptyset(&taken);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&taken, number);
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  const FileDescriptor signals(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) return fail(Code::exhausted, "signals cannot be watched");
  if (place.job <= 0) {
    return fail(Code::failed_precondition,
                "this is no job of Slurm; `tern launch --on slurm` makes one");
  }
  const SlurmFolder folder(place.folder);
  ASSIGN_OR_RETURN(SlurmRequest request, folder.read_request());
  say(fmt::format("job {}{} on {}", place.job,
                  place.restarts > 0 ? fmt::format(", requeued {} times,", place.restarts) : "",
                  place.nodes));
  SlurmDriver driver(place, std::move(request), clock);
  Result<int> exit_code = driver.run(signals.get());
  return exit_code;
}

}  // namespace tern
