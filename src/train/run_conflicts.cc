#include "train/run_conflicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "dataset/plan.h"
#include "model/model_names.h"
#include "train/phases.h"

namespace tern {
namespace {

// A name becomes a folder under runs/, so it must be one plain part of a path.
bool is_folder_name(std::string_view name) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  return !name.empty() && name.size() <= 200 && name.front() != '.' &&
         name.find('/') == std::string_view::npos && std::ranges::none_of(name, is_control);
}

void check_schedule(const RunConfig& config, std::vector<Conflict>& conflicts) {
  const ScheduleOptions& schedule = config.schedule;
  const int64_t epochs = config.train.epochs;
  if (schedule.warmup_epochs > static_cast<double>(epochs)) {
    conflicts.push_back(
        {{"schedule.warmup_epochs", "train.epochs"},
         fmt::format("schedule.warmup_epochs is {}, longer than the run of {} epochs; lower it or "
                     "raise train.epochs",
                     schedule.warmup_epochs, epochs)});
  }
  const std::vector<int64_t>& drops = schedule.drop_epochs;
  if (!drops.empty() && schedule.shape != "step") {
    conflicts.push_back(
        {{"schedule.drop_epochs", "schedule.shape"},
         fmt::format("schedule.drop_epochs needs schedule.shape = \"step\", and it is \"{}\"; "
                     "change one of the two",
                     schedule.shape)});
  }
  if (drops.empty() && schedule.shape == "step") {
    conflicts.push_back({{"schedule.drop_epochs", "schedule.shape"},
                         "schedule.shape is \"step\" but schedule.drop_epochs is empty; list the "
                         "epochs at which the rate drops"});
  }
  if (std::ranges::adjacent_find(drops, std::greater_equal<>()) != drops.end()) {
    conflicts.push_back({{"schedule.drop_epochs"},
                         "schedule.drop_epochs must rise from each epoch to the next; sort them"});
  }
  if (!drops.empty() && std::ranges::max(drops) >= epochs) {
    conflicts.push_back(
        {{"schedule.drop_epochs", "train.epochs"},
         fmt::format("schedule.drop_epochs has epoch {}, but the last one is {} (they are counted "
                     "from 0); remove it or raise train.epochs",
                     std::ranges::max(drops), epochs - 1)});
  }
}

void check_model(const RunConfig& config, std::vector<Conflict>& conflicts) {
  const ModelOptions& model = config.model;
  const DataOptions& data = config.data;
  if (model.zero_init && !is_resnet(model.name)) {
    conflicts.push_back(
        {{"model.zero_init", "model.name"},
         fmt::format("model.zero_init is for the resnets, and {} has no batch norm; "
                     "turn it off",
                     model.name)});
  }
  if (model.dropout > 0 && model.name != "small-cnn") {
    conflicts.push_back({{"model.dropout", "model.name"},
                         fmt::format("model.dropout is {}, but {} has no dropout; set it to 0 or "
                                     "choose model.name = \"small-cnn\"",
                                     model.dropout, model.name)});
  }
  if (model.name == "cifar-tutorial" && data.format != "cifar10") {
    conflicts.push_back(
        {{"model.name", "data.format"},
         fmt::format("model.name = \"cifar-tutorial\" takes colour images of 32x32, data.format = "
                     "\"cifar10\"; for \"{}\" choose model.name = \"small-cnn\"",
                     data.format)});
  }
  if (config.image.rectangular && !takes_any_size(model.name)) {
    conflicts.push_back({{"image.rectangular", "model.name"},
                         fmt::format("image.rectangular needs a network that takes images of any "
                                     "size, and {} takes one; turn it off",
                                     model.name)});
  }
  if (const Result<Shuffle> shuffle = parse_shuffle(data.shuffle); !shuffle) {
    conflicts.push_back({{"data.shuffle"}, "data.shuffle: " + shuffle.error().message});
  }
  if (data.format == "cifar10" && data.classes != 10) {
    conflicts.push_back(
        {{"data.format", "data.classes"},
         fmt::format("data.classes is {}, but data.format = \"cifar10\" has 10 classes; set it "
                     "to 10",
                     data.classes)});
  }
}

// Stretches, of which each must begin where the one before ended, from 0 to the last epoch.
template <typename Phase>
void check_stretches(const std::vector<Phase>& phases, std::string_view list, int64_t epochs,
                     std::vector<Conflict>& conflicts) {
  double end = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    const std::string key = fmt::format("{}.{}.epochs", list, i);
    const auto complain = [&](std::string message) {
      conflicts.push_back({{list}, fmt::format("{}: {}", key, message)});
    };
    if (phases[i].epochs.size() != 2 || phases[i].epochs[0] >= phases[i].epochs[1]) {
      complain("wants two numbers, the first below the second, such as [0, 14]");
      return;
    }
    const auto first = static_cast<double>(phases[i].epochs[0]);
    if (first != end) {
      complain(fmt::format(
          "begins at {}, but {} at {}, which {}; let each phase begin where the one before it ends",
          first, i == 0 ? "the run begins" : "the phase before it ends", end,
          first > end ? "leaves a gap" : "overlaps"));
      return;
    }
    end = static_cast<double>(phases[i].epochs[1]);
  }
  if (!phases.empty() && end != static_cast<double>(epochs)) {
    conflicts.push_back(
        {{list, "train.epochs"},
         fmt::format("the last [[{}]] ends at epoch {}, but train.epochs is {}; let "
                     "them agree",
                     list, end, epochs)});
  }
}

void check_data_phases(const RunConfig& config, std::vector<Conflict>& conflicts) {
  const size_t before = conflicts.size();
  check_stretches(config.data_phase, "data_phase", config.train.epochs, conflicts);
  if (conflicts.size() > before) return;
  for (const DataPhase& phase : data_phases(config)) {
    if (phase.batch < config.train.accumulate) {
      conflicts.push_back(
          {{"train.accumulate", "train.batch", "data_phase"},
           fmt::format("train.accumulate is {}, but there is a batch of {}, which cannot be cut "
                       "into that many pieces; lower it",
                       config.train.accumulate, phase.batch)});
      break;
    }
  }
  if (takes_any_size(config.model.name)) return;
  for (const DataPhaseOptions& phase : config.data_phase) {
    if (phase.rectangular != "yes" &&
        (phase.image_size == 0 || phase.image_size == config.data_phase[0].image_size)) {
      continue;
    }
    conflicts.push_back({{"data_phase", "model.name"},
                         fmt::format("phases of several image sizes need a network that takes any "
                                     "size, and {} takes one; choose a resnet",
                                     config.model.name)});
    break;
  }
}

void check_lr_phases(const RunConfig& config, std::vector<Conflict>& conflicts) {
  const bool is_pieces = config.schedule.shape == "pieces";
  if (is_pieces == config.lr_phase.empty()) {
    conflicts.push_back({{"lr_phase", "schedule.shape"},
                         is_pieces
                             ? "schedule.shape is \"pieces\" but there is no [[lr_phase]]; add "
                               "one for each piece"
                             : "[[lr_phase]] needs schedule.shape = \"pieces\"; set it, or "
                               "remove the pieces"});
    return;
  }
  if (is_pieces && config.schedule.warmup_epochs > 0) {
    conflicts.push_back({{"schedule.warmup_epochs", "schedule.shape"},
                         "schedule.warmup_epochs has no meaning with pieces; let the first "
                         "[[lr_phase]] rise instead"});
  }
  check_stretches(config.lr_phase, "lr_phase", config.train.epochs, conflicts);
  for (const LrPhaseOptions& piece : config.lr_phase) {
    if (piece.rate.size() == 1 || piece.rate.size() == 2) continue;
    conflicts.push_back({{"lr_phase"},
                         "lr_phase: rate wants one value, or where a line begins and ends, such as "
                         "[1.0, 2.0]"});
    break;
  }
}

void check_ranks(const RunConfig& config, std::vector<Conflict>& conflicts) {
  const RanksOptions& ranks = config.ranks;
  // How many ranks there are in all is known where they are started: each machine has ranks.count.
  if (ranks.max != 0 && ranks.min > ranks.max) {
    conflicts.push_back({{"ranks.min", "ranks.max"},
                         fmt::format("ranks.min is {}, and no more than {} ranks take part; lower "
                                     "it, or raise ranks.max",
                                     ranks.min, ranks.max)});
  }
  if (ranks.timeout < 4 * ranks.heartbeat) {
    conflicts.push_back(
        {{"ranks.timeout", "ranks.heartbeat"},
         fmt::format("ranks.timeout is {}, which fewer than four heartbeats of {} "
                     "fit into; raise it",
                     format_duration(ranks.timeout), format_duration(ranks.heartbeat))});
  }
}

}  // namespace

std::vector<Conflict> find_conflicts(const RunConfig& config) {
  std::vector<Conflict> conflicts;
  if (!is_folder_name(config.recipe)) {
    conflicts.push_back(
        {{"recipe"},
         fmt::format("recipe is {}, but it names a folder; use at most 200 bytes, no '/' and no "
                     "'.' at the beginning",
                     quote_toml(config.recipe))});
  }
  if (config.optimizer.nesterov && config.optimizer.momentum <= 0) {
    conflicts.push_back({{"optimizer.nesterov", "optimizer.momentum"},
                         "optimizer.nesterov needs optimizer.momentum above 0; set momentum or "
                         "turn nesterov off"});
  }
  check_schedule(config, conflicts);
  check_model(config, conflicts);
  check_data_phases(config, conflicts);
  check_lr_phases(config, conflicts);
  check_ranks(config, conflicts);
  return conflicts;
}

}  // namespace tern
