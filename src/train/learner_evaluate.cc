// What a trained network says about a batch.
#include <torch/torch.h>

#include <algorithm>

#include "train/learner.h"
#include "train/learner_torch.h"

namespace tern {
namespace {

// How many classes each sample's network prefers to its label: 0 is right, below 5 is in the top 5.
// Of equal logits the first comes first; those that are no number come before all.
torch::Tensor label_ranks(const torch::Tensor& logits, const torch::Tensor& labels) {
  const torch::Tensor label = labels.unsqueeze(1);
  const torch::Tensor own = logits.gather(1, label);
  const torch::Tensor is_earlier =
      torch::arange(logits.size(1), labels.options()).unsqueeze(0).lt(label);
  return logits.le(own)
      .logical_not_()
      .logical_or_(logits.eq(own).logical_and_(is_earlier))
      .sum(1)
      .to(torch::kCPU);
}

// While it lives, the parameters are the averaged ones.
class AverageScope {
 public:
  AverageScope(std::vector<torch::Tensor> parameters, const std::vector<torch::Tensor>& average) {
    if (average.empty()) return;
    parameters_ = std::move(parameters);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      own_.push_back(parameters_[i].variable_data());
      parameters_[i].set_data(average[i]);
    }
  }
  ~AverageScope() {
    for (size_t i = 0; i < own_.size(); ++i) parameters_[i].set_data(own_[i]);
  }
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;

 private:
  std::vector<torch::Tensor> parameters_, own_;
};

}  // namespace

EvaluationSums& EvaluationSums::operator+=(const EvaluationSums& more) {
  loss += more.loss;
  top1 += more.top1;
  top5 += more.top5;
  samples += more.samples;
  const auto add = [](std::vector<int64_t>& to, const std::vector<int64_t>& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  };
  add(class_samples, more.class_samples);
  add(class_top1, more.class_top1);
  return *this;
}

torch::Tensor Learner::Torch::evaluation_logits() {
  const torch::NoGradGuard no_grad;
  const AverageScope averaged(parameter_tensors(), average);
  const c10::InferenceMode inference;
  if (network->is_training()) network->eval();
  return forward(batch.images);
}

Result<EvaluationSums> Learner::evaluate() {
  return guarded("evaluate", [&]() -> Result<EvaluationSums> {
    Torch& t = *torch_;
    const auto classes = static_cast<size_t>(t.setup.classes);
    EvaluationSums sums{.class_samples = std::vector<int64_t>(classes),
                        .class_top1 = std::vector<int64_t>(classes)};
    if (t.batch.labels.numel() == 0) return sums;
    const torch::Tensor logits = t.evaluation_logits();
    const c10::InferenceMode inference;
    const torch::Tensor& labels = t.batch.labels;
    // Label smoothing is a training device; the test loss is the plain one, so that runs compare.
    const torch::Tensor losses =
        at::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Sum);
    const torch::Tensor ranks = label_ranks(logits, labels);
    const torch::Tensor host_labels = labels.to(torch::kCPU);
    const auto* rank = ranks.const_data_ptr<int64_t>();
    const auto* label = host_labels.const_data_ptr<int64_t>();
    sums.loss = losses.item<double>();
    sums.samples = labels.size(0);
    for (int64_t i = 0; i < sums.samples; ++i) {
      const auto of_class = static_cast<size_t>(label[i]);
      const int64_t is_right = rank[i] == 0 ? 1 : 0;
      sums.top1 += is_right;
      sums.top5 += rank[i] < 5 ? 1 : 0;
      sums.class_samples.at(of_class) += 1;
      sums.class_top1.at(of_class) += is_right;
    }
    return sums;
  });
}

Result<std::vector<Prediction>> Learner::predict(int64_t count) {
  return guarded("predict", [&]() -> Result<std::vector<Prediction>> {
    Torch& t = *torch_;
    std::vector<Prediction> predictions(static_cast<size_t>(t.batch.labels.size(0)));
    if (predictions.empty()) return predictions;
    const int64_t kept = std::clamp<int64_t>(count, 0, t.setup.classes);
    const torch::Tensor logits = t.evaluation_logits();
    const c10::InferenceMode inference;
    const auto [values, labels] = logits.softmax(1).topk(kept, 1);
    const torch::Tensor probabilities = values.to(torch::kCPU, torch::kFloat64).contiguous();
    const torch::Tensor classes = labels.to(torch::kCPU).contiguous();
    const auto* probability = probabilities.const_data_ptr<double>();
    const auto* label = classes.const_data_ptr<int64_t>();
    for (Prediction& prediction : predictions) {
      for (int64_t i = 0; i < kept; ++i) prediction.guesses.push_back({*label++, *probability++});
    }
    return predictions;
  });
}

}  // namespace tern
