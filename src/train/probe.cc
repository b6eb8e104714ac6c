#include "train/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "core/progress.h"
#include "core/system_files.h"
#include "loader/loader.h"
#include "loader/view.h"
#include "train/evaluate.h"
#include "train/learner_setup.h"
#include "train/memory_estimate.h"
#include "train/phases.h"
#include "train/run_data.h"

namespace tern {
namespace {

constexpr int64_t kStepsMin = 3;
constexpr int64_t kEvaluationBatches = 3;  // measured, after one that is not
constexpr int64_t kStepsOfATry = 2;        // the second has gradients and momentum already

struct Measured {
  double seconds = 0;  // each
  int64_t count = 0;
};

// One phase's probe. Owned by probe_plan(); one thread.
class PhaseProbe {
 public:
  PhaseProbe(const ProbeSetup& setup, const DataPhase& phase, const PhaseFacts& facts,
             std::function<void()> on_step)
      : setup_(setup),
        config_(config_in(setup.config, phase)),
        facts_(facts),
        on_step_(std::move(on_step)) {
    config_.data_phase.clear();
    config_.data.stage.clear();
  }

  Result<PhaseSpeed> run(bool data_is_here);
  // Of one checkpoint. REQUIRES: run() found that the phase fits.
  Result<double> save_seconds();
  int64_t gpu_peak_bytes() const { return learner_ ? learner_->device_use().peak_memory_bytes : 0; }
  const std::string& warning() const { return warning_; }

 private:
  Status make_learner();
  Result<Measured> time_steps(const std::function<Status()>& put);
  Result<Measured> time_compute(int64_t batch);
  Result<Measured> time_with_data(const PhaseData& data);
  Result<Measured> time_evaluation(const PhaseData& data);
  Status measure_data(PhaseSpeed& speed);
  Result<bool> fits(int64_t batch);
  bool is_on_cpu() const { return setup_.device == kCpu; }

  const ProbeSetup& setup_;
  RunConfig config_;
  const PhaseFacts& facts_;
  const std::function<void()> on_step_;
  std::unique_ptr<Learner> learner_;
  std::string warning_;
};

Status PhaseProbe::make_learner() {
  learner_.reset();  // its memory is needed
  ASSIGN_OR_RETURN(
      const Learner::Setup learner,
      learner_setup(config_, facts_.shape, facts_.classes, setup_.device, setup_.kernels));
  ASSIGN_OR_RETURN(learner_, Learner::create(learner));
  return {};
}

// A rate of 0 costs as much as another and keeps the loss a number.
Result<Measured> PhaseProbe::time_steps(const std::function<Status()>& put) {
  int64_t step = 0;
  const auto train = [&]() -> Status {
    RETURN_IF_ERROR(put());
    RETURN_IF_ERROR(learner_->step(step++, /*learning_rate=*/0));
    on_step_();
    return {};
  };
  for (int64_t i = 0; i < setup_.warm_steps; ++i) RETURN_IF_ERROR(train());
  RETURN_IF_ERROR(learner_->finish_steps());
  const Nanoseconds begin = setup_.clock->now();
  int64_t count = 0;
  while (count < setup_.steps &&
         (count < kStepsMin || setup_.clock->now() - begin < setup_.limit)) {
    RETURN_IF_ERROR(train());
    ++count;
  }
  RETURN_IF_ERROR(learner_->finish_steps());
  const double seconds = to_seconds(setup_.clock->now() - begin);
  return Measured{.seconds = seconds / static_cast<double>(count), .count = count};
}

Result<Measured> PhaseProbe::time_compute(int64_t batch) {
  // Brought to the device once: what is asked is how fast it computes.
  RETURN_IF_ERROR(learner_->put(synthetic_batch(facts_.shape, facts_.classes, batch)));
  return time_steps([]() -> Status { return {}; });
}

Result<Measured> PhaseProbe::time_with_data(const PhaseData& data) {
  const int64_t steps = setup_.warm_steps + setup_.steps;
  Loader loader({.dataset = data.train.get(),
                 .plan = data.plan.get(),
                 .seed = static_cast<uint64_t>(config_.train.seed),
                 .augment = config_.augment,
                 .options = config_.loader,
                 .epochs = steps / data.plan->batches_per_epoch() + 1,
                 .clock = setup_.clock,
                 .leave_augmentation = !is_on_cpu(),
                 .image = config_.image,
                 .on_bad = on_bad_sample(config_.data)});
  return time_steps([&]() -> Status {
    ASSIGN_OR_RETURN(Batch batch, loader.next());
    RETURN_IF_ERROR(learner_->put(batch));
    loader.recycle(std::move(batch));
    return {};
  });
}

Result<Measured> PhaseProbe::time_evaluation(const PhaseData& data) {
  const Dataset& test = *data.test;
  Plan plan(test.id(), test.size(), /*seed=*/0, config_.train.evaluate_batch, Order::sequential);
  if (config_.image.rectangular) {
    plan =
        plan.with_order(std::make_shared<const std::vector<int64_t>>(order_by_aspect_ratio(test)));
  }
  Loader loader({.dataset = &test,
                 .plan = &plan,
                 .options = config_.loader,
                 .image = config_.image,
                 .is_evaluation = true,
                 .on_bad = OnBadSample::skip});
  const int64_t batches = std::min(kEvaluationBatches + 1, plan.batches_per_epoch());
  Nanoseconds begin = setup_.clock->now();
  for (int64_t i = 0; i < batches; ++i) {
    // The first warms up, unless it is the only one.
    if (i == 1) begin = setup_.clock->now();
    ASSIGN_OR_RETURN(Batch batch, loader.next());
    RETURN_IF_ERROR(learner_->put(batch));
    loader.recycle(std::move(batch));
    RETURN_IF_ERROR(learner_->evaluate());
    on_step_();
  }
  const int64_t count = std::max<int64_t>(1, batches - 1);
  const double seconds = to_seconds(setup_.clock->now() - begin);
  return Measured{.seconds = seconds / static_cast<double>(count), .count = count};
}

Status PhaseProbe::measure_data(PhaseSpeed& speed) {
  ASSIGN_OR_RETURN(const RunData data, open_run_data(config_));
  ASSIGN_OR_RETURN(const Measured steps, time_with_data(data.first()));
  speed.data_step_s = steps.seconds;
  if (config_.train.evaluate_every == 0) return {};
  const Result<Measured> evaluation = time_evaluation(data.first());
  if (evaluation.has_value()) {
    speed.evaluate_batch_s = evaluation->seconds;
    return {};
  }
  if (evaluation.error().code != Code::exhausted) return evaluation.error();
  warning_ = fmt::format(
      "an evaluation of {} samples at once does not fit; set "
      "train.evaluate_batch lower",
      config_.train.evaluate_batch);
  return {};
}

// On a CPU by the estimate: a machine without memory would end the process, not fail a call.
Result<bool> PhaseProbe::fits(int64_t batch) {
  if (is_on_cpu()) {
    if (!facts_.memory || setup_.memory_available_bytes == 0) return true;
    return process_bytes(config_, facts_, batch) <= setup_.memory_available_bytes;
  }
  const Batch samples = synthetic_batch(facts_.shape, facts_.classes, batch);
  const auto attempt = [&]() -> Status {
    RETURN_IF_ERROR(make_learner());
    for (int64_t step = 0; step < kStepsOfATry; ++step) {
      RETURN_IF_ERROR(learner_->put(samples));
      RETURN_IF_ERROR(learner_->step(step, /*learning_rate=*/0));
    }
    RETURN_IF_ERROR(learner_->finish_steps());
    return {};
  };
  const Status tried = attempt();
  learner_.reset();
  if (tried.has_value()) return true;
  if (tried.error().code == Code::exhausted) return false;
  return tried.error();
}

Result<PhaseSpeed> PhaseProbe::run(bool data_is_here) {
  PhaseSpeed speed;
  const int64_t batch = config_.train.batch;
  if (is_on_cpu()) {
    ASSIGN_OR_RETURN(speed.fits, fits(batch));
  }
  if (speed.fits) {
    Status made = make_learner();
    Result<Measured> compute =
        made.has_value() ? time_compute(batch) : Result<Measured>(made.error());
    if (compute.has_value()) {
      speed.steps = compute->count;
      speed.compute_step_s = compute->seconds;
    } else if (compute.error().code == Code::exhausted) {
      speed.fits = false;
    } else {
      return compute.error();
    }
  }
  if (!speed.fits) {
    learner_.reset();
    ASSIGN_OR_RETURN(speed.largest_batch,
                     largest_that_fits(batch, [this](int64_t samples) { return fits(samples); }));
    return speed;
  }
  if (data_is_here) RETURN_IF_ERROR(measure_data(speed));
  return speed;
}

Result<double> PhaseProbe::save_seconds() {
  const Nanoseconds begin = setup_.clock->now();
  RETURN_IF_ERROR(learner_->save());
  return to_seconds(setup_.clock->now() - begin);
}

std::string does_not_fit(const ProbeSetup& setup, const PlanPhase& phase, size_t index) {
  const std::string where = setup.device == kCpu
                                ? fmt::format("the {} of memory that are free here",
                                              format_bytes(setup.memory_available_bytes))
                                : fmt::format("the memory of {}", setup.device);
  const int64_t largest = phase.speed->largest_batch;
  const std::string what =
      fmt::format("the batch of epochs {} to {}, {}, does not fit into {}; ", phase.first_epoch,
                  phase.end_epoch, format_count(phase.batch), where);
  if (largest == 0) return what + "nor does a single sample: use a machine with more";
  const std::vector<DataPhaseOptions>& phases = setup.config.data_phase;
  const bool is_own = index < phases.size() && phases[index].batch > 0;
  const std::string key = is_own ? fmt::format("data_phase.{}.batch", index) : "train.batch";
  const int64_t pieces = setup.config.train.accumulate;
  const int64_t needed = (phase.batch * pieces + largest - 1) / largest;
  return what + fmt::format(
                    "the largest that does is {}: --set {}={}, or --set "
                    "train.accumulate={} computes it in pieces",
                    format_count(largest), key, largest, needed);
}

}  // namespace

Result<int64_t> largest_that_fits(int64_t too_large,
                                  const std::function<Result<bool>(int64_t)>& fits) {
  int64_t good = 1;
  while (good * 2 < too_large) good *= 2;
  for (; good > 0 && good < too_large; good /= 2) {
    ASSIGN_OR_RETURN(const bool is_good, fits(good));
    if (is_good) break;
  }
  if (good == 0 || good >= too_large) return int64_t{0};
  int64_t bad = std::min(good * 2, too_large);
  while (bad - good > std::max<int64_t>(1, good / 16)) {
    const int64_t middle = good + (bad - good) / 2;
    ASSIGN_OR_RETURN(const bool is_good, fits(middle));
    (is_good ? good : bad) = middle;
  }
  return good;
}

int64_t available_memory_bytes(const std::filesystem::path& root) {
  std::istringstream lines(read_system_file(root / "proc/meminfo"));
  int64_t available = 0;
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kLabel = "MemAvailable:";
    if (!line.starts_with(kLabel)) continue;
    std::istringstream(line.substr(kLabel.size())) >> available;  // in KiB
  }
  available *= 1024;
  const int64_t granted = read_cgroup_limits(root).memory_bytes;
  if (granted == 0) return available;
  return available == 0 ? granted : std::min(available, granted);
}

Status probe_plan(const ProbeSetup& setup, PlanFacts& facts) {
  RunPlan& plan = facts.plan;
  plan.probed_on = setup.device;
  const std::vector<DataPhase> phases = data_phases(setup.config);
  const int64_t per_figure = setup.warm_steps + setup.steps;
  int64_t total = 0;
  for (const PlanPhase& phase : plan.phases) {
    total += per_figure + (phase.data_is_here ? per_figure + kEvaluationBatches + 1 : 0);
  }
  Progress progress(*setup.log, *setup.clock, {.what = "probe", .unit = "steps", .total = total});
  int64_t done = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    PlanPhase& phase = plan.phases[i];
    const PhaseFacts& known = facts.phases[i];
    const bool is_reached = plan.steps == 0 || phase.steps > 0;
    if (known.shape.bytes() == 0 || !is_reached) continue;
    PhaseProbe probe(setup, phases[i], known, [&] {
      progress.update(std::min(++done, total), fmt::format("phase {} of {}", i + 1, phases.size()));
    });
    const bool has_data = phase.data_is_here && phase.batch <= phase.samples;
    ASSIGN_OR_RETURN(phase.speed, probe.run(has_data));
    if (!probe.warning().empty()) plan.warnings.push_back(probe.warning());
    if (!phase.speed->fits) {
      plan.warnings.push_back(does_not_fit(setup, phase, i));
      continue;
    }
    ASSIGN_OR_RETURN(plan.save_s, probe.save_seconds());
    plan.gpu_peak_bytes = std::max(plan.gpu_peak_bytes, probe.gpu_peak_bytes());
  }
  plan.time = predict_time(plan, setup.config);
  return {};
}

}  // namespace tern
