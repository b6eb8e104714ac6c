#include "train/learner.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <set>

#include "core/random.h"
#include "model/network.h"

namespace tern {
namespace {

constexpr char kModelPrefix[] = "model.";
constexpr char kMomentumPrefix[] = "momentum.";

// Runs `work`, turning what LibTorch throws into an error.
template <typename Work>
auto guarded(const char* doing, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError& error) {
    return fail(Code::exhausted, fmt::format("{}: out of memory: {}; use a smaller train.batch",
                                             doing, error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return fail(Code::internal, fmt::format("{}: {}", doing, error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return fail(Code::internal, fmt::format("{}: {}", doing, error.what()));
  }
}

torch::Tensor channel_values(const std::vector<double>& values, int64_t channels) {
  std::vector<float> expanded(static_cast<size_t>(channels), static_cast<float>(values[0]));
  if (values.size() > 1) {
    for (size_t i = 0; i < expanded.size(); ++i) expanded[i] = static_cast<float>(values[i]);
  }
  return torch::tensor(expanded).reshape({1, channels, 1, 1});
}

BytesView bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::string dtype_name(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32: return "F32";
    case torch::kFloat64: return "F64";
    case torch::kInt64: return "I64";
    default: TERN_CHECK(false);
  }
}

TensorView view_of(std::string name, const torch::Tensor& tensor) {
  TERN_CHECK(tensor.is_contiguous());
  return {std::move(name), dtype_name(tensor), tensor.sizes().vec(), bytes_of(tensor)};
}

using NamedTensors = std::map<std::string, torch::Tensor>;

// Says what does not fit.
Status check_fits(const TensorView& stored, const torch::Tensor& ours) {
  if (stored.dtype == dtype_name(ours) && stored.shape == ours.sizes().vec()) return {};
  return fail(Code::failed_precondition,
              fmt::format("tensor '{}' is {} [{}] in the file and {} [{}] in the model",
                          stored.name, stored.dtype, fmt::join(stored.shape, ", "),
                          dtype_name(ours), fmt::join(ours.sizes().vec(), ", ")));
}

void copy_into(torch::Tensor& ours, const TensorView& stored) {
  std::memcpy(ours.mutable_data_ptr(), stored.data.data(), stored.data.size());
}

}  // namespace

struct Learner::Torch {
  Setup setup;
  std::shared_ptr<Network> network;
  std::vector<std::pair<std::string, torch::Tensor>> parameters;
  std::unique_ptr<torch::optim::SGD> optimizer;
  torch::Tensor mean, stddev;

  torch::Tensor images(const Batch& batch) const {
    const int64_t count = batch.positions.size();
    // from_blob only looks; the conversion to float makes the copy that the step owns.
    auto pixels = torch::from_blob(
        const_cast<uint8_t*>(batch.images.data()),
        {count, batch.shape.channels, batch.shape.height, batch.shape.width}, torch::kUInt8);
    return pixels.to(torch::kFloat32).div_(255).sub_(mean).div_(stddev);
  }

  static torch::Tensor labels(const Batch& batch) {
    return torch::from_blob(const_cast<int64_t*>(batch.labels.data()),
                            {static_cast<int64_t>(batch.labels.size())}, torch::kInt64);
  }

  // The momentum of a parameter; undefined before its first step.
  torch::Tensor momentum(const torch::Tensor& parameter) const {
    const auto& state = optimizer->state();
    const auto found = state.find(parameter.unsafeGetTensorImpl());
    if (found == state.end()) return {};
    return static_cast<const torch::optim::SGDParamState&>(*found->second).momentum_buffer();
  }

  NamedTensors model_tensors() const {
    NamedTensors tensors;
    for (const auto& [name, tensor] : parameters) tensors[name] = tensor.detach();
    for (const auto& item : network->named_buffers()) tensors[item.key()] = item.value();
    return tensors;
  }
};

Learner::Learner(std::unique_ptr<Torch> torch) : torch_(std::move(torch)) {}
Learner::~Learner() = default;

Result<std::unique_ptr<Learner>> Learner::create(const Setup& setup) {
  return guarded("build the model", [&]() -> Result<std::unique_ptr<Learner>> {
    at::set_num_threads(static_cast<int>(setup.threads));
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    for (const auto* values : {&setup.model.mean, &setup.model.stddev}) {
      const auto count = static_cast<int64_t>(values->size());
      if (count == 1 || count == setup.shape.channels) continue;
      return fail(
          Code::invalid,
          fmt::format("model.mean and model.stddev want 1 value, or {}, one for each channel "
                      "of the data; got {}",
                      setup.shape.channels, count));
    }
    auto state = std::make_unique<Torch>();
    state->setup = setup;
    torch::manual_seed(random_value(setup.seed, Stream::init, 0));
    ASSIGN_OR_RETURN(state->network,
                     make_network(setup.model, {setup.shape.channels, setup.shape.height,
                                                setup.shape.width, setup.classes}));
    std::vector<torch::Tensor> tensors;
    for (const auto& item : state->network->named_parameters()) {
      state->parameters.emplace_back(item.key(), item.value());
      tensors.push_back(item.value());
    }
    state->optimizer = std::make_unique<torch::optim::SGD>(
        tensors, torch::optim::SGDOptions(setup.optimizer.learning_rate)
                     .momentum(setup.optimizer.momentum)
                     .nesterov(setup.optimizer.nesterov)
                     .weight_decay(setup.optimizer.weight_decay));
    state->mean = channel_values(setup.model.mean, setup.shape.channels);
    state->stddev = channel_values(setup.model.stddev, setup.shape.channels);
    return std::unique_ptr<Learner>(new Learner(std::move(state)));
  });
}

Result<StepResult> Learner::step(const Batch& batch, int64_t step, double learning_rate) {
  return guarded("train a step", [&]() -> Result<StepResult> {
    Torch& t = *torch_;
    torch::manual_seed(random_value(t.setup.seed, Stream::step, static_cast<uint64_t>(step)));
    t.network->train();
    const torch::Tensor labels = Torch::labels(batch);
    const torch::Tensor logits = t.network->forward(t.images(batch));
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        logits, labels,
        torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(t.setup.label_smoothing));
    StepResult result;
    result.loss = loss.item<float>();
    if (!std::isfinite(result.loss)) {
      return fail(Code::out_of_range,
                  fmt::format("the loss is {} at step {}: training diverged; begin "
                              "anew (--fresh) with a smaller optimizer.learning_rate or a longer "
                              "schedule.warmup_epochs",
                              result.loss, step + 1));
    }
    t.optimizer->zero_grad();
    loss.backward();
    for (auto& group : t.optimizer->param_groups()) group.options().set_lr(learning_rate);
    t.optimizer->step();
    result.correct = logits.detach().argmax(1).eq(labels).sum().item<int64_t>();
    return result;
  });
}

Result<EvaluationSums> Learner::evaluate(const Batch& batch) {
  return guarded("evaluate", [&]() -> Result<EvaluationSums> {
    const torch::NoGradGuard no_grad;
    Torch& t = *torch_;
    t.network->eval();
    const torch::Tensor labels = Torch::labels(batch);
    const torch::Tensor logits = t.network->forward(t.images(batch));
    // Label smoothing is a training device; the test loss is the plain one, so that runs compare.
    const torch::Tensor losses = torch::nn::functional::cross_entropy(
        logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    const int64_t best = std::min<int64_t>(5, t.setup.classes);
    const torch::Tensor hits = std::get<1>(logits.topk(best, 1)).eq(labels.unsqueeze(1));
    EvaluationSums sums;
    sums.loss = losses.item<float>();
    sums.top1 = hits.select(1, 0).sum().item<int64_t>();
    sums.top5 = hits.sum().item<int64_t>();
    sums.samples = batch.positions.size();
    return sums;
  });
}

Result<Bytes> Learner::save() const {
  return guarded("save the model", [&]() -> Result<Bytes> {
    Safetensors file;
    const NamedTensors model = torch_->model_tensors();
    for (const auto& [name, tensor] : model) {
      file.tensors.push_back(view_of(kModelPrefix + name, tensor));
    }
    for (const auto& [name, parameter] : torch_->parameters) {
      const torch::Tensor momentum = torch_->momentum(parameter);
      if (momentum.defined()) file.tensors.push_back(view_of(kMomentumPrefix + name, momentum));
    }
    return write_safetensors(file);
  });
}

Status Learner::load(const Safetensors& state) {
  return guarded("load the model", [&]() -> Status {
    const torch::NoGradGuard no_grad;
    NamedTensors model = torch_->model_tensors();
    std::map<std::string, torch::Tensor> momenta;
    std::set<std::string> missing;
    for (const auto& [name, tensor] : model) missing.insert(name);
    std::vector<std::pair<torch::Tensor, const TensorView*>> copies;
    for (const TensorView& stored : state.tensors) {
      const bool is_model = stored.name.starts_with(kModelPrefix);
      const bool is_momentum = stored.name.starts_with(kMomentumPrefix);
      const std::string name =
          stored.name.substr(is_model ? sizeof kModelPrefix - 1 : sizeof kMomentumPrefix - 1);
      const auto ours = model.find(name);
      if ((!is_model && !is_momentum) || ours == model.end()) {
        return fail(Code::failed_precondition,
                    fmt::format("tensor '{}' is not part of this model", stored.name));
      }
      RETURN_IF_ERROR(check_fits(stored, ours->second));
      torch::Tensor target = is_model ? ours->second : torch::empty_like(ours->second);
      if (is_model) missing.erase(name);
      if (is_momentum) momenta[name] = target;
      copies.emplace_back(target, &stored);
    }
    if (!missing.empty()) {
      return fail(Code::failed_precondition,
                  fmt::format("tensors are missing: {}", fmt::join(missing, ", ")));
    }
    for (auto& [target, stored] : copies) copy_into(target, *stored);
    torch_->optimizer->state().clear();
    for (auto& [name, parameter] : torch_->parameters) {
      const auto momentum = momenta.find(name);
      if (momentum == momenta.end()) continue;
      auto param_state = std::make_unique<torch::optim::SGDParamState>();
      param_state->momentum_buffer(momentum->second);
      torch_->optimizer->state()[parameter.unsafeGetTensorImpl()] = std::move(param_state);
    }
    return {};
  });
}

Result<Bytes> Learner::weights() const {
  return guarded("write the weights", [&]() -> Result<Bytes> {
    Safetensors file;
    file.metadata["format"] = "pt";
    const NamedTensors model = torch_->model_tensors();
    for (const auto& [name, tensor] : model) file.tensors.push_back(view_of(name, tensor));
    return write_safetensors(file);
  });
}

int64_t Learner::parameters() const {
  int64_t count = 0;
  for (const auto& [name, parameter] : torch_->parameters) count += parameter.numel();
  return count;
}

std::string instruction_set() { return at::get_cpu_capability(); }

}  // namespace tern
