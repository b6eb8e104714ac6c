// Gradients summed over ranks while the backward pass still runs. Speaks LibTorch: for the learner
// alone.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "train/collectives_torch.h"
#include "train/learner.h"

namespace tern {

// Parameters are put into buckets in the reverse of their order, which is about the order in which
// a backward pass comes to their gradients. A bucket is sent as soon as its last gradient is there,
// so that sending overlaps with the rest of the pass; all ranks send them in the same order. Owned
// by the learner; one thread, and autograd's while that one waits. May throw what LibTorch throws.
class GradientBuckets {
 public:
  GradientBuckets(std::vector<torch::Tensor> parameters, BucketBytes bytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // The backward pass that follows is the step's last: what it completes is sent to `group`.
  void begin(Collectives::Torch& group);
  // After it: sends the rest, zeros for a parameter without gradient (a rank that had no sample).
  void send_rest();
  // Until all have come back; then each parameter's gradient is the sum over the ranks.
  Status wait();
  // The step is given up: no parameter has a gradient, and whatever is still under way ends in
  // memory that nobody looks at.
  void forget();

  int64_t bytes() const;  // of all buckets

 private:
  struct Bucket {
    std::vector<size_t> parameters;
    int64_t size = 0;  // elements
    torch::Tensor flat;
    std::vector<torch::Tensor> views;  // of flat, as the parameters lie in memory
    size_t missing = 0;                // gradients that the pass has not come to yet
    PendingCollective pending;
  };
  class Hook;

  void make_memory(Bucket& bucket) const;
  void note_gradient(size_t parameter);
  void send_complete();

  std::vector<torch::Tensor> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;        // by parameter
  Collectives::Torch* group_ = nullptr;  // from begin() on
  size_t sent_ = 0;                      // buckets
};

}  // namespace tern
