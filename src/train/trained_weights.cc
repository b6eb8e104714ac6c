#include "train/trained_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "core/stdio.h"
#include "report/class_names.h"
#include "storage/prefix_store.h"
#include "train/branch.h"
#include "train/device.h"
#include "train/learner_setup.h"
#include "train/phases.h"
#include "train/run_place.h"
#include "train/trainer.h"
#include "train/weights_file.h"

namespace tern {
namespace {

constexpr std::string_view kModelPrefix = "model.";
constexpr std::string_view kFirstWeight = "conv1.weight";

// Without the prefix that checkpoints put before a network's names; nothing for other tensors.
std::optional<std::string_view> model_name(const TrainedWeights& weights,
                                           const TensorView& tensor) {
  const std::string_view name = tensor.name;
  if (weights.number < 0) return name;
  if (!name.starts_with(kModelPrefix)) return std::nullopt;
  return name.substr(kModelPrefix.size());
}

// Every network of ours begins with conv1 and ends with the last of its fully connected layers:
// the weights themselves say what they are for, also where the data is gone.
void read_sizes(TrainedWeights& weights) {
  std::string_view last;
  for (const TensorView& tensor : weights.tensors.tensors) {
    const std::optional<std::string_view> name = model_name(weights, tensor);
    if (!name) continue;
    if (*name == kFirstWeight && tensor.shape.size() == 4) weights.channels = tensor.shape[1];
    if (name->starts_with("fc") && name->ends_with(".bias") && tensor.shape.size() == 1 &&
        *name > last) {
      last = *name;
      weights.classes = tensor.shape[0];
    }
  }
}

// Applies --set; prints every problem on a line of its own.
Status assign(RunConfig& config, const std::vector<std::string>& assignments) {
  OptionSet set = describe_run(config);
  size_t problems = 0;
  for (const std::string& assignment : assignments) {
    const std::optional<Problem> problem = set.set(assignment);
    if (!problem) continue;
    write_stderr(problem->to_string() + "\n");
    ++problems;
  }
  if (problems == 0) return {};
  return fail(Code::invalid, "see `tern train --options` for every option");
}

// The image size of a run may change on the way: the one that counts is that of the epoch whose
// end the checkpoint has seen.
RunConfig config_at(const RunConfig& config, const TrainState& state) {
  const int64_t epoch = std::max<int64_t>(0, state.epochs_closed - 1);
  const std::vector<DataPhase> phases = data_phases(config);
  for (const DataPhase& phase : phases) {
    if (epoch < phase.end_epoch) return config_in(config, phase);
  }
  return config_in(config, phases.back());
}

Result<TrainedWeights> open_weights_of_run(const WeightsRequest& request, CloudDoor& door) {
  ASSIGN_OR_RETURN(const StoreAddress place, parse_run_place(request.run));
  std::error_code error;
  if (place.is_folder() && !std::filesystem::is_directory(place.prefix, error)) {
    return fail(
        Code::not_found,
        fmt::format("no run folder {}; `tern ls` shows the runs that are here", place.prefix));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> run, open_run(door, place));
  PrefixStore checkpoints(*run, kCheckpointPrefix);
  ASSIGN_OR_RETURN(const CheckpointList list, list_checkpoints(checkpoints));
  if (list.checkpoints.empty() && list.damaged.empty()) {
    return fail(Code::not_found,
                fmt::format("{} has no checkpoint yet; `tern checkpoints` shows what a run has "
                            "saved, and training makes one at the latest when it ends",
                            place.to_string()));
  }
  ASSIGN_OR_RETURN(ResumePoint point, find_branch_point(checkpoints, request.source(place)));

  TrainedWeights weights;
  weights.name = place.to_string();
  weights.number = point.checkpoint.record.number;
  weights.step = point.text.state.step;
  OptionSet set = describe_run(weights.config);
  const std::vector<Problem> problems = set.load_toml(point.text.config_toml, kRunFileObject);
  if (!problems.empty()) {
    return fail(Code::corrupt,
                fmt::format("the options of checkpoint {} cannot be read: {}; use the version of "
                            "tern that wrote it, {}",
                            weights.number, problems[0].to_string(), point.text.version));
  }
  weights.config = config_at(weights.config, point.text.state);
  ASSIGN_OR_RETURN(weights.class_names, read_class_names(*run));
  ASSIGN_OR_RETURN(weights.tensors, gather_tensors(point.checkpoint.record.state,
                                                   point.checkpoint.blobs, weights.joined)
                                        .at(fmt::format("read checkpoint {}", weights.number)));
  weights.bytes = std::move(point.checkpoint.blobs);
  return weights;
}

Result<TrainedWeights> open_file(const WeightsRequest& request, const EvalProcess& process) {
  std::vector<Problem> problems;
  Result<RunConfig> config = load_run_config({.file = request.run}, process.recipes, problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  if (!config) return config.error();
  ASSIGN_OR_RETURN(WeightsFile file, read_weights(request.init, store_opener(*process.door)));
  TrainedWeights weights;
  weights.name = request.init;
  weights.config = config_in(*config, data_phases(*config).back());
  weights.sha256 = file.sha256;
  weights.bytes.push_back(std::move(file.bytes));
  weights.tensors = std::move(file.tensors);
  return weights;
}

}  // namespace

Result<TrainedWeights> open_trained_weights(const WeightsRequest& request,
                                            const EvalProcess& process) {
  ASSIGN_OR_RETURN(TrainedWeights weights, request.init.empty()
                                               ? open_weights_of_run(request, *process.door)
                                               : open_file(request, process));
  RETURN_IF_ERROR(assign(weights.config, request.assignments));
  // Reads only: nothing is copied to a local disk either.
  weights.config.data.stage.clear();
  weights.config.data.open_store = store_opener(*process.door);
  if (weights.config.train.threads == 0) weights.config.train.threads = process.cores;
  read_sizes(weights);
  if (weights.classes <= 0 || weights.channels <= 0) {
    return fail(Code::failed_precondition,
                fmt::format("{} has no {} or no fully connected layer, so it is of another "
                            "architecture than {}; name the model that it belongs to",
                            weights.name, kFirstWeight, weights.config.model.name));
  }
  return weights;
}

Result<std::unique_ptr<Learner>> make_learner(const TrainedWeights& weights, ImageShape shape,
                                              const EvalProcess& process) {
  const RunConfig& config = weights.config;
  ASSIGN_OR_RETURN(const std::string device,
                   choose_device({.wanted = config.train.device,
                                  .kernels = process.kernels,
                                  .gpus_are_hidden = process.gpus_are_hidden},
                                 *process.log));
  ASSIGN_OR_RETURN(Learner::Setup setup,
                   learner_setup(config, shape, weights.classes, device, process.kernels));
  if (weights.number < 0) setup.ema = 0;  // a file has one set of weights
  ASSIGN_OR_RETURN(std::unique_ptr<Learner> learner, Learner::create(setup));
  const std::string doing = fmt::format("fill {} with {}", config.model.name, weights.name);
  if (weights.number >= 0) {
    RETURN_IF_ERROR(learner->load(weights.tensors).at(doing));
    return learner;
  }
  ASSIGN_OR_RETURN(const InitReport report, learner->begin_with(weights.tensors).at(doing));
  if (report.head_replaced.empty()) return learner;
  return fail(Code::failed_precondition,
              fmt::format("{} does not fit the last layer of {}; name the model that it belongs to",
                          weights.name, config.model.name));
}

std::string class_name(const TrainedWeights& weights, int64_t label) {
  const auto index = static_cast<size_t>(label);
  if (index < weights.class_names.size()) return weights.class_names[index];
  return fmt::format("class {}", label);
}

Status print_answer(std::string_view text) {
  errno = 0;
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (is_written || errno == EPIPE) return {};
  return fail(Code::unavailable, "could not write the answer; is the disk full?");
}

}  // namespace tern
