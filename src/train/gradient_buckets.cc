#include "train/gradient_buckets.h"

#include <torch/torch.h>

#include <memory>
#include <numeric>

namespace tern {

// Called by autograd when a parameter's gradient has been accumulated.
class GradientBuckets::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientBuckets& buckets, size_t parameter) : buckets_(buckets), parameter_(parameter) {}
  void operator()(const torch::autograd::Variable&) override { buckets_.note_gradient(parameter_); }

 private:
  GradientBuckets& buckets_;
  const size_t parameter_;
};

GradientBuckets::GradientBuckets(std::vector<torch::Tensor> parameters, BucketBytes bytes)
    : parameters_(std::move(parameters)), bucket_of_(parameters_.size()) {
  for (size_t i = parameters_.size(); i-- > 0;) {
    const torch::Tensor& parameter = parameters_[i];
    const int64_t limit = buckets_.size() <= 1 ? bytes.first : bytes.rest;
    const auto room = limit / static_cast<int64_t>(parameter.element_size());
    const bool is_full = buckets_.empty() || (buckets_.back().size > 0 &&
                                              buckets_.back().size + parameter.numel() > room);
    if (is_full) buckets_.emplace_back();
    Bucket& bucket = buckets_.back();
    bucket.parameters.push_back(i);
    bucket.size += parameter.numel();
    bucket_of_[i] = buckets_.size() - 1;
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                   std::make_unique<Hook>(*this, i));
  }
}

GradientBuckets::~GradientBuckets() {
  for (const torch::Tensor& parameter : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

int64_t GradientBuckets::bytes() const {
  return std::accumulate(parameters_.begin(), parameters_.end(), int64_t{0},
                         [](int64_t sum, const torch::Tensor& parameter) {
                           return sum + static_cast<int64_t>(parameter.nbytes());
                         });
}

void GradientBuckets::make_memory(Bucket& bucket) const {
  if (bucket.flat.defined()) return;
  bucket.views.clear();
  bucket.flat = torch::empty({bucket.size}, parameters_[bucket.parameters[0]].options());
  int64_t begin = 0;
  for (const size_t i : bucket.parameters) {
    const torch::Tensor& parameter = parameters_[i];
    bucket.views.push_back(bucket.flat.as_strided(parameter.sizes(), parameter.strides(), begin));
    begin += parameter.numel();
  }
}

void GradientBuckets::begin(Collectives::Torch& group) {
  const torch::NoGradGuard no_grad;
  group_ = &group;
  sent_ = 0;
  for (Bucket& bucket : buckets_) {
    make_memory(bucket);
    bucket.missing = bucket.parameters.size();
    bucket.pending = {};
  }
}

void GradientBuckets::note_gradient(size_t parameter) {
  if (group_ == nullptr) return;  // not the step's last piece
  --buckets_[bucket_of_[parameter]].missing;
  send_complete();
}

void GradientBuckets::send_complete() {
  const torch::NoGradGuard no_grad;
  for (; sent_ < buckets_.size() && buckets_[sent_].missing == 0; ++sent_) {
    Bucket& bucket = buckets_[sent_];
    for (size_t i = 0; i < bucket.views.size(); ++i) {
      const torch::Tensor& gradient = parameters_[bucket.parameters[i]].grad();
      if (gradient.defined()) {
        bucket.views[i].copy_(gradient);
      } else {
        bucket.views[i].zero_();
      }
    }
    bucket.pending = group_->start_reduction(bucket.flat, Collectives::Torch::Reduction::sum);
  }
}

void GradientBuckets::send_rest() {
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  send_complete();
}

Status GradientBuckets::wait() {
  for (const Bucket& bucket : buckets_) RETURN_IF_ERROR(group_->wait(bucket.pending));
  group_ = nullptr;
  for (Bucket& bucket : buckets_) {
    bucket.pending = {};
    for (size_t i = 0; i < bucket.views.size(); ++i) {
      parameters_[bucket.parameters[i]].mutable_grad() = bucket.views[i];
    }
  }
  return {};
}

void GradientBuckets::forget() {
  group_ = nullptr;
  for (Bucket& bucket : buckets_) {
    // Gloo may still write to it; its own hold on the memory is the last.
    bucket.flat = torch::Tensor();
    bucket.views.clear();
    bucket.pending = {};
  }
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad() = torch::Tensor();
}

}  // namespace tern
