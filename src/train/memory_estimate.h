// How much memory a step will take, before a machine for it is rented.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "train/learner.h"

namespace tern {

// Bytes that grow with the samples that are computed at once.
struct LinearBytes {
  int64_t fixed = 0;
  int64_t per_sample = 0;

  int64_t at(int64_t samples) const { return fixed + per_sample * samples; }
};

// What is held at each moment of a step, and so how much at the worst: with few samples that is a
// moment with all gradients, with many one with all activations.
struct MemoryCurve {
  std::vector<LinearBytes> moments;

  int64_t at(int64_t samples) const;
};

// Tensors alone: weights, gradients, momentum, moving average, activations and what kernels take
// through LibTorch's allocator. What they take elsewhere (a library's own work space) is not in it,
// nor is the space between tensors.
struct MemoryEstimate {
  MemoryCurve train;
  MemoryCurve evaluate;
  int64_t input_bytes_per_sample = 0;  // a batch that is computed in pieces is held whole
  int64_t parameters = 0;
  int64_t checkpoint_bytes = 0;
  int64_t weights_bytes = 0;  // of model.safetensors

  // For a batch that is computed in `pieces`, and evaluations of `evaluate_batch` (0: none).
  int64_t at(int64_t batch, int64_t pieces, int64_t evaluate_batch) const;
  // For images of `factor` times as many pixels.
  MemoryEstimate with_pixels(double factor) const;
};

// Trains and evaluates 2 and then 4 synthetic samples on one thread of the CPU, whatever the run's
// device, following LibTorch's allocations, and draws a line through each moment of the two. Takes
// a second or two. Fails as Learner does: `invalid` for a network that cannot take such images.
Result<MemoryEstimate> estimate_memory(Learner::Setup setup);

// The shape to measure instead of `shape`: a network that takes any size has activations that grow
// with the pixels, exactly so from one multiple of 32 to another, and small images are quick.
ImageShape shape_to_measure(const std::string& model_name, ImageShape shape);

// `samples` random images with labels; the same ones every time.
Batch synthetic_batch(ImageShape shape, int64_t classes, int64_t samples);

}  // namespace tern
