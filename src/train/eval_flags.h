// The flags of `tern eval` and `tern predict`, defined once for `tern`, which checks them, and for
// tern-train, which is started with the same ones. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "train/branch_source.h"
#include "train/run_config.h"

namespace CLI {
class App;
}

namespace tern {

// What tern-train is started with to do this instead of train.
inline constexpr char kEvalMode[] = "--eval";
inline constexpr char kPredictMode[] = "--predict";

// Which weights: of a run's checkpoint, or, with `init`, of a file.
struct WeightsRequest {
  std::string run;                       // DIR; with --init a run file or a recipe
  std::string init;                      // a file of weights; empty: the run's own
  std::string checkpoint = "last";       // last, best or a step
  std::vector<std::string> assignments;  // --set key=value, in order

  // REQUIRES: no init, and a checkpoint that the flags took. `place` is what `run` means.
  BranchSource source(const StoreAddress& place) const;
};

struct EvalRequest {
  WeightsRequest weights;
  std::string data;  // --data: another data set; empty: the run's own
  std::string split = "test";
  int64_t batch = 0;  // 0: train.evaluate_batch
  bool json = false;
  bool per_class = false;
};

struct PredictRequest {
  WeightsRequest weights;
  std::vector<std::string> files;  // or folders
  int64_t top = 5;
  bool json = false;
};

// The values land in `request`, which must outlive `app`. Nothing is required here.
void add_eval_flags(CLI::App& app, EvalRequest& request);
void add_predict_flags(CLI::App& app, PredictRequest& request);

// What CLI11 cannot tell: what is missing, and flags that exclude each other. `invalid`.
Status check_request(const EvalRequest& request);
Status check_request(const PredictRequest& request);

// All of it, as tern-train does: `arguments` is what followed the command's name.
Result<EvalRequest> parse_eval_flags(const std::vector<std::string>& arguments);
Result<PredictRequest> parse_predict_flags(const std::vector<std::string>& arguments);

}  // namespace tern
