#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tern {
namespace {

double cosine(double progress, double final_factor) {
  return final_factor + (1 - final_factor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace

double learning_rate_at(const ScheduleOptions& schedule, double full_rate, ScheduleLength length,
                        int64_t step) {
  const auto steps_per_epoch = static_cast<double>(length.steps_per_epoch);
  const int64_t total = length.steps_per_epoch * length.epochs;
  const auto warmup = static_cast<int64_t>(std::llround(schedule.warmup_epochs * steps_per_epoch));
  if (step < warmup) {
    return full_rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  if (schedule.shape == "cosine") {
    const auto after_warmup = static_cast<double>(std::max<int64_t>(1, total - warmup));
    const double progress = std::min(1.0, static_cast<double>(step - warmup) / after_warmup);
    return full_rate * cosine(progress, schedule.final_factor);
  }
  if (schedule.shape == "step") {
    double rate = full_rate;
    for (int64_t epoch : schedule.drop_epochs) {
      if (step >= epoch * length.steps_per_epoch) rate *= schedule.drop_factor;
    }
    return rate;
  }
  return full_rate;
}

}  // namespace tern
