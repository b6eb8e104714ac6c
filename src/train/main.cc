// tern-train: trains one rank. A user types `tern train`, which checks the run file, finds LibTorch
// and becomes this program; the flags are the same.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "cloud/open_store.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "cuda/kernels.h"
#include "preempt/cloud_watch.h"
#include "preempt/file_watcher.h"
#include "preempt/signal_watcher.h"
#include "ranks/rank_link.h"
#include "storage/file_door.h"
#include "storage/prefix_store.h"
#include "storage/retry_store.h"
#include "train/bucket_log.h"
#include "train/eval_flags.h"
#include "train/eval_mode.h"
#include "train/exit_codes.h"
#include "train/fresh.h"
#include "train/learner.h"
#include "train/on_event.h"
#include "train/open_rank_door.h"
#include "train/own_gpu.h"
#include "train/plan_flags.h"
#include "train/plan_mode.h"
#include "train/predict_mode.h"
#include "train/run_place.h"
#include "train/speed_probe.h"
#include "train/tensor_memory.h"
#include "train/train_flags.h"
#include "train/trainer.h"
#include "train/weights_file.h"

namespace tern {
namespace {

// A network disk that hiccups is worth a second or two; a notice leaves no more.
constexpr RetryOptions kDiskRetries{.attempts_max = 4, .total_max = Milliseconds(2000)};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::string> read_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// `tern` has counted the cores, or read the run's recorded count, before LibTorch was loaded.
int64_t threads_if_left_open() {
  const int64_t given = std::atoll(environment("TERN_THREADS").c_str());
  return given > 0 ? given : std::max(1u, std::thread::hardware_concurrency());
}

std::filesystem::path own_path() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

// The first GPU that CUDA shows us, in the driver's list. `tern` has told CUDA to count as the
// driver does. A UUID instead of a number is rare; then the record is of the first GPU.
int visible_gpu() {
  const std::string visible = environment("CUDA_VISIBLE_DEVICES");
  int index = 0;
  std::from_chars(visible.data(), visible.data() + visible.size(), index);
  return std::max(0, index);
}

// The usual ways to say that no GPU is to be used.
bool gpus_are_hidden() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && (*visible == '\0' || *visible == '-');
}

// `tern` tells when it began; whoever starts tern-train by hand begins now.
Nanoseconds lived_before() {
  const Nanoseconds began(std::atoll(environment("TERN_STARTED_NS").c_str()));
  if (began <= Nanoseconds(0)) return Nanoseconds(0);
  return std::max(Nanoseconds(0), time_since_boot() - began);
}

// `tern` pins the instruction set before LibTorch is loaded; whoever starts tern-train by hand
// must.
Status check_portable(const RunConfig& config) {
  if (!config.train.portable || instruction_set() == kPortableInstructionSet) return {};
  return fail(Code::failed_precondition,
              fmt::format("train.portable asks for {} and LibTorch computes with {}; start the run "
                          "with `tern train`, on a CPU that has {}",
                          kPortableInstructionSet, instruction_set(), kPortableInstructionSet));
}

std::vector<Recipe> known_recipes() {
  return list_recipes(recipe_folders(own_path(), environment("TERN_RECIPES")));
}

Result<RunConfig> read_config(const TrainRequest& request) {
  const std::vector<Recipe> recipes = known_recipes();
  std::vector<Problem> problems;
  Result<RunConfig> config = load_run_config(request, recipes, problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  return config;
}

Status refuse_standing_halt_file(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return {};
  return fail(Code::failed_precondition,
              fmt::format("{} exists, so this run is told to halt; remove it to train", path));
}

// What will run: every option, those that are not the default marked.
void print_options(const RunConfig& config) {
  RunConfig shown;
  // Their number is not part of the assignment below, which must not move them.
  shown.data_phase.resize(config.data_phase.size());
  shown.lr_phase.resize(config.lr_phase.size());
  const OptionSet set = describe_run(shown);
  shown = config;
  write_stderr(set.to_table() + "\n");
}

// Progress on the screen; made at the first event, when the run's length is known.
class Screen {
 public:
  Screen(Log& log, Clock& clock) : log_(log), clock_(clock) {}

  void on_start(const StepEvent& event) {
    progress_.emplace(log_, clock_,
                      ProgressOptions{.what = "train",
                                      .unit = "samples",
                                      .total = event.total_samples,
                                      .start = event.samples});
  }
  void on_step(const StepEvent& event) {
    progress_->update(event.samples, fmt::format("step {} loss {:.3f}", event.step, event.loss));
  }
  void on_end() { progress_.reset(); }

 private:
  Log& log_;
  Clock& clock_;
  std::optional<Progress> progress_;
};

// A closed stdout (`| head`) is no reason to fail a run that is saved: what cannot be said is not.
void say_how_it_ended(const TrainRequest& request, const std::string& run,
                      const Outcome& outcome) try {
  fmt::print("{}: {} at step {} ({}), {} steps lost\n", run, status_name(outcome.status),
             outcome.step, outcome.reason, outcome.steps_lost);
  if (outcome.status == RunStatus::preempted || outcome.status == RunStatus::stopped) {
    fmt::print("Run the same command again{} to go on from {}.\n",
               request.fresh ? ", without --fresh," : "",
               outcome.steps_lost == 0 ? "there" : "the last checkpoint");
  }
} catch (const std::system_error&) {
}

// The other run of --from, opened to be read.
struct OtherRun {
  BranchSource source;
  PrefixStore checkpoints;
};

Result<std::unique_ptr<OtherRun>> open_other_run(const std::string& from, const StoreAddress& mine,
                                                 CloudDoor& door) {
  if (from.empty()) return std::unique_ptr<OtherRun>();
  ASSIGN_OR_RETURN(BranchSource source, parse_from(from));
  RETURN_IF_ERROR(check_new_folder(source, mine));
  // Whether it is there matters only if it is needed: a branch that has begun goes on without.
  ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> store, door.open(source.run));
  return std::unique_ptr<OtherRun>(
      new OtherRun{std::move(source), PrefixStore(std::move(store), kCheckpointPrefix)});
}

// Told to leave before anything was begun.
Outcome left_before_the_start(const Notice& notice) {
  const bool is_preempt = notice.kind == NoticeKind::preempt;
  return {.status = is_preempt ? RunStatus::preempted : RunStatus::stopped,
          .exit_code = is_preempt ? kExitPreempted : kExitStopped,
          .reason = "notice by " + notice.source + " before the start"};
}

// What train_here() needs of the process; all of it outlives the training.
struct TrainProcess {
  const TrainRequest& request;
  const RunConfig& config;
  const StoreAddress& place;
  const std::string& command;
  CloudDoor& door;
  CloudWatch& cloud;
  RankDoor* ranks;  // null: it trains alone
  NoticeBoard& board;
  Clock& clock;
  Log& log;
};

// --fresh. `cancelled` if a notice came while the run's holder was waited for.
Status begin_anew(const TrainProcess& process, ObjectStore& run, const Holder& me) {
  if (!process.place.is_folder()) return refuse_old_run(run, process.place.to_string());
  RealFileDoor files;
  ASSIGN_OR_RETURN(const auto aside,
                   set_old_run_aside(process.place.prefix, files, process.clock, process.log, me,
                                     process.config.lease, process.board));
  if (aside) process.log.info("train", "the old run is kept", {{"in", aside->string()}});
  return {};
}

// The run's place, as it must be before a run is begun there or goes on.
Status prepare_place(const TrainProcess& process, ObjectStore& store, const Holder& me) {
  if (process.request.fresh) RETURN_IF_ERROR(begin_anew(process, store, me));
  RETURN_IF_ERROR(
      prepare_run_place(process.door, process.place, store,
                        process.request.create ? MissingBucket::create : MissingBucket::refuse));
  // A run that goes on has shown them before; what changed since is logged.
  if (!store.stat(kRunFileObject).has_value()) print_options(process.config);
  return {};
}

Machine machine_for_the_record(CloudWatch& cloud) {
  Machine machine = read_machine();
  machine.instance_type = cloud.instance_type();
  return machine;
}

Result<Outcome> train_in(ObjectStore& run, const TrainProcess& process, RunData data,
                         const std::string& device, OtherRun* other, const Holder& me,
                         const std::function<Status()>& prepare) {
  std::optional<BucketLog> bucket_log;
  if (!process.place.is_folder()) bucket_log.emplace(run, process.clock, process.log);
  Screen screen(process.log, process.clock);
  TrainerSetup setup{.config = process.config,
                     .run_name = process.place.to_string(),
                     .command = process.command,
                     .me = me,
                     .cores = threads_if_left_open(),
                     .age = lived_before(),
                     .machine = machine_for_the_record(process.cloud),
                     .device = device,
                     .kernels = kernels_path(own_path()),
                     .gpu_index = visible_gpu(),
                     .watch_system = true,
                     .open_store = store_opener(process.door),
                     .run = &run,
                     .clock = &process.clock,
                     .log = &process.log,
                     .board = &process.board,
                     .ranks = process.ranks,
                     .prepare = prepare};
  if (other != nullptr) {
    setup.from = other->source;
    setup.from_checkpoints = &other->checkpoints;
  }
  bool has_begun = false;
  setup.on_start = [&](const StepEvent& event) {
    has_begun = true;
    screen.on_start(event);
  };
  setup.on_step = [&](const StepEvent& event) {
    screen.on_step(event);
    if (bucket_log) bucket_log->write_if_due();
  };
  Result<Outcome> ended = train(setup, std::move(data));
  if (bucket_log && has_begun) bucket_log->write();
  return ended;
}

Result<Outcome> train_here(const TrainProcess& process) {
  const TrainRequest& request = process.request;
  const RunConfig& config = process.config;
  RETURN_IF_ERROR(refuse_standing_halt_file(request.halt_file));
  RETURN_IF_ERROR(check_portable(config));
  ASSIGN_OR_RETURN(const Holder me, this_process());
  std::optional<FileWatcher> halt_file;
  if (!request.halt_file.empty()) {
    halt_file.emplace(process.board, process.clock, request.halt_file);
  }

  // What cannot be had is refused before anything is moved or written: data, device, other run,
  // weights.
  ASSIGN_OR_RETURN(RunData data, open_run_data(config, [&process](const Error& error) {
                     process.log.warn(
                         "train",
                         "a local copy of the data could not be made; it is read where it is",
                         {{"cause", error.to_string()}});
                   }));
  RETURN_IF_ERROR(check_batches(config, data));
  if (process.ranks != nullptr && config.train.device != kCpu && !gpus_are_hidden()) {
    RETURN_IF_ERROR(take_own_gpu(read_variable));
  }
  ASSIGN_OR_RETURN(const std::string device, choose_device({.wanted = config.train.device,
                                                            .kernels = kernels_path(own_path()),
                                                            .gpus_are_hidden = gpus_are_hidden()},
                                                           process.log));
  ASSIGN_OR_RETURN(const auto other, open_other_run(request.from, process.place, process.door));
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, process.door.open(process.place));
  // Some fifty requests come before the first step: two minutes where each takes 5 s.
  if (!process.place.is_folder()) {
    process.log.info("train", "looking into the bucket", {{"run", process.place.to_string()}});
  }
  RETURN_IF_ERROR(refuse_unfinished(*store, process.place.to_string()));
  const bool is_new = request.fresh || !store->stat(kRunFileObject).has_value();
  if (is_new && !config.model.init.empty()) {
    RETURN_IF_ERROR(find_weights(config.model.init, store_opener(process.door)));
  }
  if (other && is_new) {
    RunConfig copy = config;
    ASSIGN_OR_RETURN(const ResumePoint point, find_branch_point(other->checkpoints, other->source));
    RETURN_IF_ERROR(check_branch(copy, data.id, point.text));
  }
  const auto prepare = [&] { return prepare_place(process, *store, me); };
  // Of several ranks the one that begins the run does it.
  if (const Status ready = process.ranks == nullptr ? prepare() : Status(); !ready.has_value()) {
    const auto notice = process.board.notice();
    if (ready.error().code == Code::cancelled && notice) return left_before_the_start(*notice);
    return ready.error();
  }
  // A bucket's own requests are tried again where they are sent.
  if (!process.place.is_folder()) {
    return train_in(*store, process, std::move(data), device, other.get(), me, prepare);
  }
  RetryStore retried(*store, kDiskRetries, process.clock, static_cast<uint64_t>(me.pid));
  return train_in(retried, process, std::move(data), device, other.get(), me, prepare);
}

// What was typed, but for --on-event's command, which may hold somebody's token.
std::string command_for_the_record(const std::vector<std::string>& arguments) {
  constexpr std::string_view kEventFlag = "--on-event";
  std::string command = "tern train";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_hidden = i > 0 && arguments[i - 1] == kEventFlag;
    const bool has_hidden = arguments[i].starts_with(std::string(kEventFlag) + "=");
    command += ' ';
    command += is_hidden ? "..." : has_hidden ? std::string(kEventFlag) + "=..." : arguments[i];
  }
  return command;
}

RunEvent event_of(const StoreAddress& place, const Result<Outcome>& ended) {
  if (ended.has_value()) {
    return {.status = ended->status,
            .run = place.to_string(),
            .step = ended->step,
            .steps_lost = ended->steps_lost,
            .reason = ended->reason,
            .exit_code = ended->exit_code};
  }
  return {.status = RunStatus::failed,
          .run = place.to_string(),
          .reason = ended.error().to_string(),
          .exit_code = exit_code_of(ended.error().code)};
}

std::string locale_name() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

CloudSurroundings cloud_surroundings(Log& log) {
  std::string certificates = environment("CURL_CA_BUNDLE");
  if (certificates.empty()) certificates = environment("SSL_CERT_FILE");
  return {.variable = read_variable,
          .home = environment("HOME"),
          .certificates = certificates,
          .tell = [&log](const std::string& sentence) { log.warn("store", sentence); }};
}

// What the first argument asks for instead of training; nothing if it trains. No run file is called
// so: `tern` puts the mode in front of what was typed.
std::optional<Result<int>> run_mode(const std::vector<std::string>& arguments, Clock& clock,
                                    Log& log, CloudDoor& door) {
  if (arguments.empty()) return std::nullopt;
  const std::string& mode = arguments[0];
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (mode == kPlanMode) {
    return plan_mode({.recipes = known_recipes(),
                      .cores = threads_if_left_open(),
                      .kernels = kernels_path(own_path()),
                      .gpus_are_hidden = gpus_are_hidden(),
                      .locale = locale_name(),
                      .open_store = store_opener(door),
                      .clock = &clock,
                      .log = &log},
                     rest);
  }
  if (mode != kEvalMode && mode != kPredictMode) return std::nullopt;
  const EvalProcess process{.recipes = known_recipes(),
                            .cores = threads_if_left_open(),
                            .kernels = kernels_path(own_path()),
                            .gpus_are_hidden = gpus_are_hidden(),
                            .door = &door,
                            .clock = &clock,
                            .log = &log};
  return mode == kEvalMode ? eval_mode(process, rest) : predict_mode(process, rest);
}

Result<int> run(const std::vector<std::string>& arguments) {
  SystemClock clock;
  if (!arguments.empty() && arguments[0] == "--probe-speed") {
    ASSIGN_OR_RETURN(const std::string speed,
                     probe_speed({.clock = &clock,
                                  .threads = threads_if_left_open(),
                                  .device = arguments.size() > 1 ? arguments[1] : kCpu}));
    fmt::print("{}\n", speed);
    return kExitDone;
  }
  Log log(clock, Level::info);
  CloudDoor door(cloud_surroundings(log), clock);
  if (const auto mode = run_mode(arguments, clock, log, door)) return *mode;
  ASSIGN_OR_RETURN(const TrainRequest request, parse_train_flags(arguments));
  ASSIGN_OR_RETURN(RunConfig config, read_config(request));
  config.data.open_store = store_opener(door);
  ASSIGN_OR_RETURN(const StoreAddress place, run_place(request, config));

  const std::string command = command_for_the_record(arguments);
  NoticeBoard board;
  // Until the very end, so that Ctrl-C twice also leaves while --on-event's command runs.
  ASSIGN_OR_RETURN(const auto signals,
                   SignalWatcher::start(board, clock, [] { _exit(kExitInterruptedTwice); }));
  ASSIGN_OR_RETURN(const auto ranks, open_rank_door(read_variable, board, clock));
  CloudWatch cloud(
      {.options = is_supervised(read_variable) ? PreemptOptions{.cloud = "none"} : config.preempt,
       .machine = read_machine(),
       .variable = read_variable,
       .board = &board,
       .clock = &clock,
       .log = &log});
  const Result<Outcome> ended =
      train_here({request, config, place, command, door, cloud, ranks.get(), board, clock, log});
  // Of several ranks the one that led speaks for all.
  if (ended.has_value() && !ended->has_led) return ended->exit_code;
  if (ended.has_value()) say_how_it_ended(request, place.to_string(), *ended);
  const Status told = run_event_command(request.on_event, event_of(place, ended), clock, log);
  if (!told.has_value()) {
    log.warn("train", "the command of --on-event", {{"problem", told.error().to_string()}});
  }
  if (!ended.has_value()) return ended.error();
  // Last of all: the machine may be gone a moment later.
  if (ended->status == RunStatus::preempted && ended->steps_lost == 0) cloud.machine_may_go();
  return ended->exit_code;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  tern::open_missing_standard_streams();
  // A pipe that nobody reads any more (`| head`) must not end a run; writes to it just fail.
  std::signal(SIGPIPE, SIG_IGN);
  // Nor a limit on the size of files (ulimit -f): that write fails, and the run says so and goes
  // on.
  std::signal(SIGXFSZ, SIG_IGN);
  // Before LibTorch or anything else makes a thread.
  if (const tern::Status blocked = tern::SignalWatcher::block_signals(); !blocked.has_value()) {
    tern::write_stderr(fmt::format("tern: {}\n", blocked.error().message));
    return tern::kExitInternal;
  }
  try {
    tern::keep_tensor_memory();
    const tern::Result<int> code = tern::run({argv + 1, argv + argc});
    if (code.has_value()) return *code;
    tern::write_stderr(fmt::format("tern: {}\n", code.error().message));
    return tern::exit_code_of(code.error().code);
  } catch (const std::exception& error) {
    tern::write_stderr(fmt::format("tern: this is a bug in tern: {}\n", error.what()));
    return tern::kExitInternal;
  }
}
