// The results of steps on a GPU, read when they are there instead of waited for. Speaks LibTorch:
// for the learner alone.
#pragma once

#include <c10/core/Event.h>
#include <torch/types.h>

#include <deque>
#include <optional>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "train/learner.h"

namespace tern {

// What a step leaves on its device: tensors without dimensions.
struct StepNumbers {
  torch::Tensor loss, correct;     // of the loss's type
  torch::Tensor found_inf, scale;  // fp16's alone: the overflow and the scale that followed it
};

// Owned by the learner; one thread. May throw what LibTorch throws.
//
// A GPU is told what to do several steps ahead; asking it for a number waits until it has got
// there. So each step's numbers are copied to the host behind its work, and read once their event
// says so, at the latest kLate steps later, which also bounds how far the host runs ahead.
class LateResults {
 public:
  static constexpr size_t kLate = 4;

  // REQUIRES: a GPU.
  explicit LateResults(torch::Device device) : device_(device) {}

  // Around the work of a step: its device time is what lies between.
  void begin_step();
  void end_step(int64_t step, const StepNumbers& numbers);

  // Those that are there; all that are out if `wait_for_all`. `out_of_range` for a step that
  // diverged.
  Result<StepResults> take(bool wait_for_all);
  // Waits for those that are out and drops them.
  void forget();

  Nanoseconds computed() const { return computed_; }
  int64_t steps() const { return steps_; }
  int64_t dry_steps() const { return dry_steps_; }

 private:
  struct Pending {
    int64_t step = 0;
    torch::Tensor numbers;  // float64, as StepNumbers; pinned host memory
    bool is_scaled = false;
    std::optional<c10::Event> begin, end;
  };
  Result<StepResult> read(Pending& pending);
  c10::Event record_event() const;

  const torch::Device device_;
  std::optional<c10::Event> begin_;
  std::deque<Pending> pending_;
  std::vector<torch::Tensor> spare_;  // pinned memory, to be used again
  Nanoseconds computed_{0};
  int64_t steps_ = 0;
  int64_t dry_steps_ = 0;
};

// The error for a loss that is NaN or infinite.
Error diverged(double loss, int64_t step);

// Passes on a result that is a number, or a step that was skipped while fp16's `scale` was still
// large; all else is divergence. `scale` is the one after the step.
Result<StepResult> judge(const StepResult& result, double scale);

}  // namespace tern
