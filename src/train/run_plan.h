// What a run will do, before it does it: what `tern plan` shows. Plain values, and their text and
// JSON; plan_facts.h finds them out. No LibTorch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/run_config.h"

namespace tern {

// What a probe measured of a phase.
struct PhaseSpeed {
  bool fits = true;
  int64_t largest_batch = 0;          // if it does not fit: the largest that does; 0: not even 1
  int64_t steps = 0;                  // measured for each figure
  double compute_step_s = 0;          // synthetic samples, made once
  std::optional<double> data_step_s;  // with the loader; nothing if the data is not here
  std::optional<double> evaluate_batch_s;  // likewise

  double step_s() const { return data_step_s.value_or(compute_step_s); }
};

struct PlanPhase {
  int64_t first_epoch = 0;
  int64_t end_epoch = 0;     // the first after it
  int64_t image_height = 0;  // 0: not known without the data
  int64_t image_width = 0;
  int64_t batch = 0;
  std::string path;
  bool data_is_here = false;
  int64_t samples = 0;       // of the training data; 0: not known
  int64_t test_samples = 0;  // likewise
  int64_t steps_per_epoch = 0;
  int64_t steps = 0;  // that the run does in it, train.steps minded
  double rate_begin = 0;
  double rate_end = 0;       // of its last step
  int64_t memory_bytes = 0;  // estimate of what computing takes; 0: not known
  std::optional<PhaseSpeed> speed;

  int64_t epochs() const { return end_epoch - first_epoch; }
};

struct RatePoint {
  double epoch = 0;
  int64_t step = 0;
  double rate = 0;
};

// Where the predicted time goes.
struct PlanTime {
  double train_s = 0;
  double evaluate_s = 0;
  double checkpoint_s = 0;
  int64_t evaluations = 0;
  int64_t checkpoints = 0;
  bool is_cut = false;  // train.time_limit ends the run before

  double total_s = 0;
  std::optional<int64_t> cost_microusd;  // with a price
};

struct RunPlan {
  std::string recipe;
  std::string model;
  std::string precision;
  // The data of the first phase that is here; empty and 0 if none is.
  std::string data_name;
  int64_t train_samples = 0;
  int64_t test_samples = 0;
  int64_t classes = 0;
  int64_t data_bytes = 0;

  std::vector<PlanPhase> phases;
  int64_t epochs = 0;
  int64_t steps = 0;    // 0: not known without the data
  int64_t samples = 0;  // that are trained on, all epochs together

  std::vector<RatePoint> curve;    // evenly spaced
  std::vector<RatePoint> borders;  // where phases of either kind begin, and the last step

  int64_t parameters = 0;  // 0: not known
  int64_t checkpoint_bytes = 0;
  int64_t weights_bytes = 0;  // of model.safetensors
  // Estimates, of the largest phase: what the device holds, and what else the process does.
  int64_t device_memory_bytes = 0;
  int64_t host_memory_bytes = 0;
  bool is_on_gpu = false;

  double save_s = 0;                     // measured, for one checkpoint, the disk not counted
  int64_t gpu_peak_bytes = 0;            // measured
  std::string probed_on;                 // "cpu", "cuda:0"; empty: no probe
  int64_t price_microusd_per_hour = -1;  // -1: not known
  std::optional<PlanTime> time;
  std::vector<std::string> warnings;

  int64_t memory_bytes() const {
    return is_on_gpu ? device_memory_bytes : device_memory_bytes + host_memory_bytes;
  }
};

// From what was measured; nothing if a phase was not, or does not fit.
std::optional<PlanTime> predict_time(const RunPlan& plan, const RunConfig& config);

// Which characters a curve may be drawn with.
enum class Glyphs { ascii, utf8 };

// A character a point, its height the rate's between 0 and the highest.
std::string sparkline(const std::vector<RatePoint>& curve, Glyphs glyphs);

std::string format_run_plan(const RunPlan& plan, Glyphs glyphs);
nlohmann::json run_plan_json(const RunPlan& plan);

}  // namespace tern
