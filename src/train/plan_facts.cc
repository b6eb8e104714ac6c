#include "train/plan_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "cloud/open_store.h"
#include "core/progress.h"
#include "core/system_files.h"
#include "dataset/indexed_dataset.h"
#include "train/learner_setup.h"
#include "train/phases.h"
#include "train/run_data.h"
#include "train/schedule.h"
#include "train/weights_file.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCurvePoints = 60;
constexpr size_t kClassesNamed = 5;

// What this process holds now: LibTorch, and little else.
int64_t resident_bytes() {
  std::istringstream statm(read_system_file("/proc/self/statm"));
  int64_t whole = 0;
  int64_t resident = 0;
  statm >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// What `tern data import` made at this path; an error if it is data of another kind.
Result<ImportedData> find_imported_at(const RunConfig& config, const std::string& path) {
  ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(path));
  if (address.is_folder()) return find_imported(address.prefix);
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, config.data.open_store(path));
  return find_imported(std::move(store), path);
}

// Of all samples of both splits, as stored; of files that are read into memory, the pixels.
int64_t data_bytes(const Result<ImportedData>& imported, const PhaseData& data) {
  if (imported) {
    const DatasetIndex& index = *imported->index;
    int64_t bytes = 0;
    for (int64_t i = 0; i < index.samples(); ++i) bytes += index.entry(i).length;
    return bytes;
  }
  return data.train->size() * data.train->shape().bytes() +
         data.test->size() * data.test->shape().bytes();
}

std::string missing_data(const RunConfig& config, const DataPhase& phase, const Error& why) {
  const bool is_main = phase.path == config.data.path;
  if (is_cloud_address(phase.path)) {
    return fmt::format("the data of epochs {} to {} cannot be opened: {}", phase.first_epoch,
                       phase.end_epoch, why.message);
  }
  std::string next;
  if (is_main && !config.data.source.empty()) {
    next = "`tern train` fetches it when the run begins";
  } else if (is_main && !config.data.source_note.empty()) {
    next = config.data.source_note;
  } else if (is_main || phase.image.size == 0) {
    next = fmt::format("`tern data import SRC {}` makes it from what you have", phase.path);
  } else {
    // A quarter more than the network sees, so that random parts are seldom enlarged.
    next = fmt::format(
        "`tern data import SRC {} --pack short:{}:q90` makes it from the images you have",
        phase.path, phase.image.size * 5 / 4);
  }
  std::error_code ignored;
  const bool is_there = fs::exists(phase.path, ignored);
  return fmt::format(
      "the data of epochs {} to {}, {}, {}; {}", phase.first_epoch, phase.end_epoch, phase.path,
      is_there ? fmt::format("cannot be opened ({})", why.message) : "is not here", next);
}

std::set<int64_t> labels_of(const Dataset& data) {
  std::set<int64_t> labels;
  for (int64_t i = 0; i < data.size(); ++i) labels.insert(data.label(i));
  return labels;
}

void warn_about_classes(const PhaseData& data, std::vector<std::string>& warnings) {
  const std::set<int64_t> train = labels_of(*data.train);
  const std::set<int64_t> test = labels_of(*data.test);
  const auto warn = [&warnings](const std::set<int64_t>& these, const std::set<int64_t>& others,
                                std::string_view here, std::string_view there) {
    std::vector<int64_t> alone;
    std::set_difference(these.begin(), these.end(), others.begin(), others.end(),
                        std::back_inserter(alone));
    if (alone.empty()) return;
    const std::vector<int64_t> named(
        alone.begin(), alone.begin() + static_cast<int64_t>(std::min(alone.size(), kClassesNamed)));
    warnings.push_back(fmt::format(
        "{} of the classes in the {} data have no sample in the {} data: {}{}; are these halves of "
        "one data set?",
        alone.size(), here, there, fmt::join(named, ", "),
        alone.size() > kClassesNamed ? ", ..." : ""));
  };
  warn(train, test, "training", "test");
  warn(test, train, "test", "training");
}

// The image that the network sees where no data tells.
ImageShape shape_without_data(const RunConfig& config, const DataPhase& phase) {
  const bool is_grey = config.data.format == "idx" && phase.image.size == 0;
  const bool is_cifar = config.data.format == "cifar10";
  const int64_t side = phase.image.size > 0 ? phase.image.size : is_cifar ? 32 : 0;
  return {.channels = is_grey ? 1 : 3, .height = side, .width = side};
}

// One phase's data and nothing of the others; its batch is judged elsewhere.
Result<RunData> open_phase(const RunConfig& config, const DataPhase& phase) {
  RunConfig during = config_in(config, phase);
  during.data_phase.clear();
  during.train.batch = 1;
  during.data.stage.clear();  // a plan copies nothing
  return open_run_data(during);
}

// Halves with other classes are refused when the run begins; a plan tells of it and goes on.
std::optional<std::string> classes_that_differ(const RunConfig& config, const DataPhase& phase) {
  RunConfig during = config_in(config, phase);
  during.data.stage.clear();
  const auto train = open_dataset(during.data, Split::train);
  const auto test = open_dataset(during.data, Split::test);
  if (!train || !test || (*train)->classes() == (*test)->classes()) return std::nullopt;
  return fmt::format(
      "{} has {} classes and {} has {}; `tern train` refuses that: give it halves of "
      "one data set",
      (*train)->name(), (*train)->classes(), (*test)->name(), (*test)->classes());
}

// Looks at one phase's data; notes the first that is here as the run's.
Status look_at_data(const RunConfig& config, const DataPhase& phase, RunPlan& plan,
                    PlanPhase& shown, PhaseFacts& facts) {
  const Result<RunData> opened = open_phase(config, phase);
  if (!opened.has_value()) {
    const Error& error = opened.error();
    std::optional<std::string> problem;
    if (error.code == Code::not_found) problem = missing_data(config, phase, error);
    if (error.code == Code::corrupt) problem = classes_that_differ(config, phase);
    if (!problem) return error;
    // Once for each folder.
    const bool is_told = std::ranges::any_of(
        plan.phases, [&](const PlanPhase& before) { return before.path == phase.path; });
    if (!is_told) plan.warnings.push_back(*problem);
    facts.shape = shape_without_data(config, phase);
    facts.classes = config.data.classes;
    return {};
  }
  const PhaseData& data = opened->first();
  shown.data_is_here = true;
  shown.samples = data.train->size();
  shown.test_samples = data.test->size();
  facts.shape = data.shape;
  facts.classes = data.train->classes();
  const Result<ImportedData> imported = find_imported_at(config, phase.path);
  const int64_t bytes = data_bytes(imported, data);
  if (!imported) facts.fixed_host_bytes += bytes;
  if (!plan.data_name.empty()) {
    if (facts.classes != plan.classes) {
      plan.warnings.push_back(fmt::format(
          "{} has {} classes and {} has {}; `tern train` refuses that: the phases of a run need "
          "copies of one data set",
          plan.data_name, plan.classes, data.train->name(), facts.classes));
    }
    return {};
  }
  plan.data_name = data.train->name();
  plan.train_samples = data.train->size();
  plan.test_samples = data.test->size();
  plan.classes = data.train->classes();
  plan.data_bytes = bytes;
  warn_about_classes(data, plan.warnings);
  return {};
}

// What is not known of one phase is taken from another: smaller copies have the same samples.
void fill_in_samples(const RunConfig& config, RunPlan& plan) {
  const int64_t train = plan.train_samples > 0 ? plan.train_samples : config.data.samples;
  for (PlanPhase& phase : plan.phases) {
    if (phase.samples == 0) phase.samples = train;
    if (phase.test_samples == 0) phase.test_samples = plan.test_samples;
    if (phase.samples == 0) continue;
    phase.steps_per_epoch = (phase.samples + phase.batch - 1) / phase.batch;
    const int64_t limit = config.train.epoch_steps;
    if (limit > 0) phase.steps_per_epoch = std::min(phase.steps_per_epoch, limit);
    if (phase.batch <= phase.samples) continue;
    plan.warnings.push_back(fmt::format(
        "the batch of epochs {} to {}, {}, is larger than the data set of {}; `tern train` refuses "
        "that: lower it",
        phase.first_epoch, phase.end_epoch, format_count(phase.batch),
        format_count(phase.samples) + " samples"));
  }
  if (plan.train_samples == 0 && train > 0) {
    plan.warnings.push_back(
        fmt::format("steps and rates are for the {} training samples that data.samples tells of",
                    format_count(train)));
  }
}

// Likewise for what the network is built for: phases are copies of one data set.
void fill_in_shapes(PlanFacts& facts) {
  const std::vector<PlanPhase>& shown = facts.plan.phases;
  const auto here = std::ranges::find_if(shown, &PlanPhase::data_is_here);
  if (here == shown.end()) return;
  const PhaseFacts known = facts.phases[static_cast<size_t>(here - shown.begin())];
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i].data_is_here) continue;
    facts.phases[i].shape.channels = known.shape.channels;
    facts.phases[i].classes = known.classes;
  }
}

// Samples that a phase sees in its first `steps` steps; an epoch's last batch may be smaller.
int64_t samples_in(const PlanPhase& phase, int64_t steps) {
  const int64_t epochs = steps / phase.steps_per_epoch;
  const int64_t rest = steps % phase.steps_per_epoch;
  const int64_t per_epoch = std::min(phase.samples, phase.steps_per_epoch * phase.batch);
  return epochs * per_epoch + std::min(rest * phase.batch, per_epoch);
}

// Epochs at which the rate does something: borders of phases of both kinds, warm-up, drops.
std::set<double> border_epochs(const RunConfig& config, const RunPlan& plan) {
  std::set<double> borders = {0.0};
  for (const PlanPhase& phase : plan.phases) {
    borders.insert(static_cast<double>(phase.first_epoch));
  }
  const ScheduleOptions& schedule = config.schedule;
  if (schedule.warmup_epochs > 0) borders.insert(schedule.warmup_epochs);
  if (schedule.shape == "step") {
    for (const int64_t epoch : schedule.drop_epochs) borders.insert(static_cast<double>(epoch));
  }
  if (schedule.shape == "pieces") {
    for (const LrPhaseOptions& piece : config.lr_phase)
      borders.insert(piece.epochs.begin(), piece.epochs.end());
  }
  return borders;
}

RatePoint rate_at(const RunConfig& config, const Timeline& timeline, int64_t step) {
  const Timeline::Place place = timeline.at(step);
  const auto per_epoch = static_cast<double>(timeline.steps_per_epoch_at(step));
  return {.epoch = static_cast<double>(place.epoch) + static_cast<double>(place.batch) / per_epoch,
          .step = step,
          .rate = learning_rate_at(config, timeline, step)};
}

// REQUIRES: every phase knows its steps per epoch.
void follow_schedule(const RunConfig& config, RunPlan& plan) {
  std::vector<Timeline::Stretch> stretches;
  for (const PlanPhase& phase : plan.phases) {
    stretches.push_back({phase.epochs(), phase.steps_per_epoch, phase.batch});
  }
  const Timeline timeline(std::move(stretches));
  plan.steps = timeline.steps();
  if (config.train.steps > 0) plan.steps = std::min(plan.steps, config.train.steps);
  int64_t first = 0;
  for (PlanPhase& phase : plan.phases) {
    const int64_t whole = phase.epochs() * phase.steps_per_epoch;
    phase.steps = std::clamp<int64_t>(plan.steps - first, 0, whole);
    plan.samples += samples_in(phase, phase.steps);
    phase.rate_begin = learning_rate_at(config, timeline, first);
    phase.rate_end = learning_rate_at(config, timeline, first + whole - 1);
    first += whole;
  }
  const int64_t points = std::min(kCurvePoints, timeline.steps());
  for (int64_t i = 0; i < points; ++i) {
    // The middle of the column's steps.
    plan.curve.push_back(rate_at(config, timeline, (2 * i + 1) * timeline.steps() / (2 * points)));
  }
  int64_t last = -1;
  for (const double epoch : border_epochs(config, plan)) {
    const auto whole = static_cast<int64_t>(epoch);
    int64_t step = timeline.first_step_of(whole);
    if (step >= timeline.steps()) break;
    const auto per_epoch = static_cast<double>(timeline.steps_per_epoch_at(step));
    step += std::llround((epoch - static_cast<double>(whole)) * per_epoch);
    if (step <= last || step >= timeline.steps()) continue;
    plan.borders.push_back(rate_at(config, timeline, step));
    last = step;
  }
  if (last < timeline.steps() - 1) {
    plan.borders.push_back(rate_at(config, timeline, timeline.steps() - 1));
  }
}

// The estimate computes on the CPU, which has no fp16 and need not ask a GPU what it has.
RunConfig config_for_estimate(RunConfig config) {
  std::string& precision = config.train.precision;
  if (precision == "mixed" || precision == "fp16") precision = "bf16";
  return config;
}

Status measure_sizes(const RunConfig& config, const std::vector<DataPhase>& phases,
                     const PlanPlace& place, PlanFacts& facts) {
  const int64_t process = resident_bytes();
  std::map<std::pair<int64_t, int64_t>, MemoryEstimate> known;
  for (size_t i = 0; i < phases.size(); ++i) {
    PhaseFacts& phase = facts.phases[i];
    if (phase.shape.bytes() == 0) continue;
    const ImageShape measured = shape_to_measure(config.model.name, phase.shape);
    const auto key = std::pair(measured.height, measured.width);
    auto found = known.find(key);
    if (found == known.end()) {
      const RunConfig during = config_for_estimate(config_in(config, phases[i]));
      ASSIGN_OR_RETURN(const Learner::Setup setup,
                       learner_setup(during, measured, phase.classes, kCpu, place.kernels));
      ASSIGN_OR_RETURN(MemoryEstimate estimate, estimate_memory(setup));
      found = known.emplace(key, std::move(estimate)).first;
    }
    phase.memory = found->second.with_pixels(static_cast<double>(phase.shape.bytes()) /
                                             static_cast<double>(measured.bytes()));
    const MemoryEstimate& memory = *phase.memory;
    phase.fixed_host_bytes += process + memory.checkpoint_bytes;
    RunPlan& plan = facts.plan;
    plan.parameters = memory.parameters;
    plan.checkpoint_bytes = memory.checkpoint_bytes;
    plan.weights_bytes = memory.weights_bytes;
    const int64_t bytes =
        memory.at(phases[i].batch, config.train.accumulate, evaluate_batch_of(config));
    const int64_t host =
        phase.fixed_host_bytes + loader_bytes(config, phase.shape, phases[i].batch);
    plan.phases[i].memory_bytes = bytes;
    plan.device_memory_bytes = std::max(plan.device_memory_bytes, bytes);
    plan.host_memory_bytes = std::max(plan.host_memory_bytes, host);
  }
  return {};
}

}  // namespace

int64_t evaluate_batch_of(const RunConfig& config) {
  return config.train.evaluate_every > 0 ? config.train.evaluate_batch : 0;
}

RunConfig config_here(RunConfig config, int64_t cores) {
  if (config.train.threads == 0) config.train.threads = cores;
  return config;
}

int64_t loader_bytes(const RunConfig& config, const ImageShape& shape, int64_t batch) {
  // Two are kept to be filled again, and one is with the step loop.
  const int64_t batches = config.loader.batches_ahead + config.loader.threads + 3;
  return batches * (batch + evaluate_batch_of(config)) * shape.bytes();
}

int64_t process_bytes(const RunConfig& config, const PhaseFacts& phase, int64_t batch) {
  const int64_t counted =
      phase.memory->at(batch, config.train.accumulate, evaluate_batch_of(config)) +
      loader_bytes(config, phase.shape, batch) + phase.fixed_host_bytes;
  // What real runs took beyond the estimate, between tensors and in libraries: 25 % of
  // fashion-mnist.
  return counted + counted / 4;
}

Result<PlanFacts> find_plan_facts(const RunConfig& config, const PlanPlace& place) {
  PlanFacts facts;
  RunPlan& plan = facts.plan;
  plan.recipe = config.recipe;
  plan.model = config.model.name;
  plan.precision = config.train.precision;
  plan.epochs = config.train.epochs;
  plan.is_on_gpu = place.has_gpu;
  const std::vector<DataPhase> phases = data_phases(config);
  for (const DataPhase& phase : phases) {
    PlanPhase shown{.first_epoch = phase.first_epoch,
                    .end_epoch = phase.end_epoch,
                    .batch = phase.batch,
                    .path = phase.path};
    PhaseFacts known;
    RETURN_IF_ERROR(look_at_data(config, phase, plan, shown, known));
    shown.image_height = known.shape.height;
    shown.image_width = known.shape.width;
    plan.phases.push_back(std::move(shown));
    facts.phases.push_back(known);
  }
  fill_in_samples(config, plan);
  fill_in_shapes(facts);
  const bool is_known = std::ranges::all_of(
      plan.phases, [](const PlanPhase& phase) { return phase.steps_per_epoch > 0; });
  if (is_known) follow_schedule(config, plan);
  if (!config.model.init.empty()) {
    const Status found = find_weights(config.model.init, config.data.open_store);
    if (!found) {
      plan.warnings.push_back(
          fmt::format("the weights to begin with: {}; set model.init to where they are",
                      found.error().message));
    }
  }
  RETURN_IF_ERROR(measure_sizes(config_here(config, place.cores), phases, place, facts));
  return facts;
}

}  // namespace tern
