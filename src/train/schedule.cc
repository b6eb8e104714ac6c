#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tern {
namespace {

double cosine(double progress, double final_factor) {
  return final_factor + (1 - final_factor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

// The step at which a number of epochs, or a part of one, is over.
int64_t step_of(const Timeline& timeline, double epochs) {
  const double whole = std::floor(epochs);
  const int64_t first = timeline.first_step_of(static_cast<int64_t>(whole));
  const auto length = static_cast<double>(timeline.steps_per_epoch_at(first));
  return first + std::llround((epochs - whole) * length);
}

// Where a step is, in epochs.
double epoch_of(const Timeline& timeline, int64_t step) {
  const Timeline::Place place = timeline.at(step);
  return static_cast<double>(place.epoch) +
         static_cast<double>(place.batch) / static_cast<double>(timeline.steps_per_epoch_at(step));
}

// A multiple of the full rate, by [[lr_phase]].
double piece_at(const std::vector<LrPhaseOptions>& pieces, const Timeline& timeline, int64_t step) {
  const double epoch = epoch_of(timeline, std::min(step, timeline.steps() - 1));
  const auto after = std::ranges::find_if(
      pieces, [epoch](const LrPhaseOptions& piece) { return epoch < piece.epochs[1]; });
  const LrPhaseOptions& piece = after == pieces.end() ? pieces.back() : *after;
  const double first = piece.rate.front();
  const double last = piece.rate.back();
  const double at = piece.by == "epoch" ? std::max(std::floor(epoch), piece.epochs[0]) : epoch;
  const double progress = (at - piece.epochs[0]) / (piece.epochs[1] - piece.epochs[0]);
  return first + (last - first) * std::clamp(progress, 0.0, 1.0);
}

double shape_at(const RunConfig& config, const Timeline& timeline, int64_t step) {
  const ScheduleOptions& schedule = config.schedule;
  if (schedule.shape == "pieces") return piece_at(config.lr_phase, timeline, step);
  const int64_t warmup = step_of(timeline, schedule.warmup_epochs);
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (schedule.shape == "cosine") {
    const auto after_warmup = static_cast<double>(std::max<int64_t>(1, timeline.steps() - warmup));
    const double progress = std::min(1.0, static_cast<double>(step - warmup) / after_warmup);
    return cosine(progress, schedule.final_factor);
  }
  if (schedule.shape == "inverse-sqrt") {
    const auto full = static_cast<double>(std::max<int64_t>(1, warmup));
    return std::sqrt(full / std::max(full, static_cast<double>(step + 1)));
  }
  double factor = 1;
  if (schedule.shape == "step") {
    for (const int64_t epoch : schedule.drop_epochs) {
      if (step >= timeline.first_step_of(epoch)) factor *= schedule.drop_factor;
    }
  }
  return factor;
}

}  // namespace

double learning_rate_at(const RunConfig& config, const Timeline& timeline, int64_t step) {
  double rate = config.optimizer.learning_rate * shape_at(config, timeline, step);
  if (config.schedule.reference_batch > 0) {
    rate *= static_cast<double>(timeline.batch_at(step)) /
            static_cast<double>(config.schedule.reference_batch);
  }
  return rate;
}

}  // namespace tern
