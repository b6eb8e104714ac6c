// What fp16 needs beside the arithmetic: its small gradients vanish and its large ones overflow.
// Speaks LibTorch: for the learner alone.
#pragma once

#include <torch/types.h>

#include <map>
#include <vector>

namespace tern {

// The loss is multiplied by a scale before the backward pass, and the gradients divided by it
// after: the scale doubles after 2,000 good steps in a row and halves when a gradient overflows;
// that step is skipped. These are the numbers of PyTorch's GradScaler. Owned by the learner; one
// thread. All of it stays on the device: nothing waits. May throw what LibTorch throws.
class LossScaler {
 public:
  // Gradients that overflow even at a smaller scale are no fault of fp16: training diverged.
  static constexpr double kScaleMin = 1;

  explicit LossScaler(torch::Device device);

  torch::Tensor scaled(const torch::Tensor& loss) const { return loss * scale_; }
  // Divides the gradients by the scale and sees whether one is infinite or no number.
  void unscale(const std::vector<torch::Tensor>& gradients);
  // 1 if so at the last unscale(), else 0.
  const torch::Tensor& found_inf() const { return found_inf_; }
  // After the step: chooses the next one's scale.
  void update();

  // The state: float32 and int32 without dimensions.
  const torch::Tensor& scale() const { return scale_; }
  const torch::Tensor& good_steps() const { return good_steps_; }

 private:
  const torch::Tensor scale_, good_steps_, found_inf_;
};

// What a forward pass changes in a network, kept so that a step that is skipped or given up can
// undo it: batch norm's running statistics. Moves the buffers into one tensor for each type, so
// that a step costs a few kernels however many layers there are. Owned by the learner; one thread.
class KeptBuffers {
 public:
  explicit KeptBuffers(const std::vector<torch::Tensor>& buffers);

  void keep();
  // Where `found_inf` is 1, the buffers become what they were at keep(). Does not wait for it.
  void restore_if(const torch::Tensor& found_inf);
  void restore();

  // All buffers of a type in one tensor, as they are and as they were at keep().
  struct Flat {
    torch::Tensor live, kept;
  };
  const std::map<torch::ScalarType, Flat>& flats() const { return flats_; }

 private:
  std::map<torch::ScalarType, Flat> flats_;
};

}  // namespace tern
