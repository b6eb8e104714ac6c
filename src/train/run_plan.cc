#include "train/run_plan.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tern {
namespace {

using nlohmann::json;

json known(int64_t value) { return value > 0 ? json(value) : json(nullptr); }

json seconds(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

// Evaluations of a phase: after every `every` epochs of the run, and at the run's end.
int64_t evaluations_in(const PlanPhase& phase, int64_t every, bool is_last) {
  if (every <= 0) return 0;
  const int64_t end = phase.first_epoch + phase.steps / phase.steps_per_epoch;
  const bool ends_with_one = phase.steps % phase.steps_per_epoch == 0 && end % every == 0;
  return end / every - phase.first_epoch / every + (is_last && !ends_with_one ? 1 : 0);
}

// Checkpoints of a phase: one at the end of each epoch and of the run, and within an epoch one
// whenever checkpoint.every has passed.
int64_t checkpoints_in(const PlanPhase& phase, double train_s, double every_s) {
  const int64_t epochs = (phase.steps + phase.steps_per_epoch - 1) / phase.steps_per_epoch;
  const double epoch_s = train_s / static_cast<double>(epochs);
  const auto within = every_s > 0 ? static_cast<int64_t>(epoch_s / every_s)
                                  : std::min(phase.steps, phase.steps_per_epoch) - 1;
  return epochs * (1 + within);
}

json phase_json(const PlanPhase& phase) {
  json object = {{"first_epoch", phase.first_epoch},
                 {"end_epoch", phase.end_epoch},
                 {"epochs", phase.epochs()},
                 {"image_size", known(phase.image_height)},
                 {"image_width", known(phase.image_width)},
                 {"batch", phase.batch},
                 {"path", phase.path},
                 {"data_is_here", phase.data_is_here},
                 {"samples_per_epoch", known(phase.samples)},
                 {"steps_per_epoch", known(phase.steps_per_epoch)},
                 {"steps", phase.steps_per_epoch > 0 ? json(phase.steps) : json(nullptr)},
                 {"learning_rate_begin", phase.rate_begin},
                 {"learning_rate_end", phase.rate_end},
                 {"memory_bytes", known(phase.memory_bytes)}};
  if (!phase.speed) return object;
  const PhaseSpeed& speed = *phase.speed;
  object["fits"] = speed.fits;
  if (!speed.fits) {
    object["largest_batch"] = speed.largest_batch;
    return object;
  }
  const auto rate = [&phase](double step_s) { return static_cast<double>(phase.batch) / step_s; };
  object["measured_steps"] = speed.steps;
  object["compute_step_seconds"] = speed.compute_step_s;
  object["compute_samples_per_second"] = rate(speed.compute_step_s);
  object["data_step_seconds"] = seconds(speed.data_step_s);
  object["data_samples_per_second"] =
      speed.data_step_s ? json(rate(*speed.data_step_s)) : json(nullptr);
  object["evaluate_batch_seconds"] = seconds(speed.evaluate_batch_s);
  return object;
}

json points_json(const std::vector<RatePoint>& points) {
  json list = json::array();
  for (const RatePoint& point : points) {
    list.push_back({{"epoch", point.epoch}, {"step", point.step}, {"rate", point.rate}});
  }
  return list;
}

json predicted_json(const RunPlan& plan) {
  if (!plan.time) return nullptr;
  const PlanTime& time = *plan.time;
  return {{"seconds", time.total_s},
          {"train_seconds", time.train_s},
          {"evaluate_seconds", time.evaluate_s},
          {"checkpoint_seconds", time.checkpoint_s},
          {"evaluations", time.evaluations},
          {"checkpoints", time.checkpoints},
          {"is_cut_by_time_limit", time.is_cut},
          {"cost_usd", time.cost_microusd ? json(static_cast<double>(*time.cost_microusd) / 1e6)
                                          : json(nullptr)}};
}

}  // namespace

std::optional<PlanTime> predict_time(const RunPlan& plan, const RunConfig& config) {
  if (plan.steps <= 0) return std::nullopt;
  PlanTime time;
  const double every_s = static_cast<double>(config.checkpoint.every.count()) / 1e3;
  const int64_t evaluate_batch = config.train.evaluate_batch;
  int64_t steps_left = plan.steps;
  for (const PlanPhase& phase : plan.phases) {
    if (phase.steps == 0) continue;
    if (!phase.speed || !phase.speed->fits) return std::nullopt;
    steps_left -= phase.steps;
    const double train_s = static_cast<double>(phase.steps) * phase.speed->step_s();
    time.train_s += train_s;
    const int64_t evaluations =
        evaluations_in(phase, config.train.evaluate_every, /*is_last=*/steps_left == 0);
    const int64_t batches = (phase.test_samples + evaluate_batch - 1) / evaluate_batch;
    time.evaluations += evaluations;
    time.evaluate_s +=
        static_cast<double>(evaluations * batches) * phase.speed->evaluate_batch_s.value_or(0);
    time.checkpoints += checkpoints_in(phase, train_s, every_s);
  }
  time.checkpoint_s = static_cast<double>(time.checkpoints) * plan.save_s;
  time.total_s = time.train_s + time.evaluate_s + time.checkpoint_s;
  const double limit_s = static_cast<double>(config.train.time_limit.count()) / 1e3;
  if (limit_s > 0 && time.total_s > limit_s) {
    time.is_cut = true;
    time.total_s = limit_s;
  }
  if (plan.price_microusd_per_hour >= 0) {
    const auto price = static_cast<double>(plan.price_microusd_per_hour);
    time.cost_microusd = std::llround(price * time.total_s / 3600);
  }
  return time;
}

json run_plan_json(const RunPlan& plan) {
  json object = {{"recipe", plan.recipe},
                 {"model", plan.model},
                 {"precision", plan.precision},
                 {"data",
                  {{"name", plan.data_name.empty() ? json(nullptr) : json(plan.data_name)},
                   {"train_samples", known(plan.train_samples)},
                   {"test_samples", known(plan.test_samples)},
                   {"classes", known(plan.classes)},
                   {"bytes", known(plan.data_bytes)}}},
                 {"epochs", plan.epochs},
                 {"steps", known(plan.steps)},
                 {"samples", known(plan.samples)},
                 {"parameters", known(plan.parameters)},
                 {"checkpoint_bytes", known(plan.checkpoint_bytes)},
                 {"weights_bytes", known(plan.weights_bytes)},
                 {"memory_bytes", known(plan.memory_bytes())},
                 {"device_memory_bytes", known(plan.device_memory_bytes)},
                 {"host_memory_bytes", known(plan.host_memory_bytes)},
                 {"phases", json::array()},
                 {"learning_rate",
                  {{"curve", points_json(plan.curve)}, {"borders", points_json(plan.borders)}}},
                 {"warnings", plan.warnings}};
  for (const PlanPhase& phase : plan.phases) object["phases"].push_back(phase_json(phase));
  if (!plan.probed_on.empty()) {
    object["probed_on"] = plan.probed_on;
    object["gpu_peak_memory_bytes"] = known(plan.gpu_peak_bytes);
    object["predicted"] = predicted_json(plan);
  }
  // A path may be no UTF-8, and dump() throws on that; NaN has no JSON.
  return json::parse(object.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace),
                     /*callback=*/nullptr, /*allow_exceptions=*/false);
}

}  // namespace tern
