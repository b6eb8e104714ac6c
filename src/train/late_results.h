// The results of steps, read when they are there instead of waited for. Speaks LibTorch: for
// learner.cc alone.
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

// Owned by the learner; one thread. May throw what LibTorch throws.
//
// A GPU is told what to do several steps ahead; asking it for a number waits until it has got
// there. So each step's numbers are copied to the host behind its work, and read once their event
// says so, at the latest kLate steps later, which also bounds how far the host runs ahead. On a CPU
// they are read at once.
class LateResults {
 public:
  static constexpr size_t kLate = 4;

  explicit LateResults(torch::Device device) : device_(device) {}

  // Around the work of a step: its device time is what lies between.
  void begin_step();
  void end_step(int64_t step, const torch::Tensor& loss, const torch::Tensor& correct);

  // Those that are there; all that are out if `wait_for_all`. `out_of_range` for a loss that is no
  // number.
  Result<StepResults> take(bool wait_for_all);

  Nanoseconds computed() const { return computed_; }
  int64_t steps() const { return steps_; }
  int64_t dry_steps() const { return dry_steps_; }

 private:
  struct Pending {
    int64_t step = 0;
    torch::Tensor numbers;  // float64: loss, correct; pinned host memory on a GPU
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

}  // namespace tern
