#include "train/learner.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <set>

#include "core/hash.h"
#include "core/random.h"
#include "model/network.h"
#include "train/device_batch.h"
#include "train/late_results.h"

namespace tern {
namespace {

constexpr char kModelPrefix[] = "model.";
constexpr char kMomentumPrefix[] = "momentum.";

// Runs `work`, turning what LibTorch throws into an error.
template <typename Work>
auto guarded(const char* doing, Work work) -> decltype(work()) {
  const auto out_of_memory = [doing](const std::string& what) {
    return fail(Code::exhausted,
                fmt::format("{}: out of memory: {}; use a machine with more, or smaller batches: "
                            "train.evaluate_batch, or train.batch in a run begun with --fresh",
                            doing, what));
  };
  try {
    return work();
  } catch (const c10::OutOfMemoryError& error) {
    return out_of_memory(error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    return out_of_memory(error.what());
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    // The CPU's allocator has no class of its own for it.
    if (what.find("can't allocate memory") != std::string::npos) return out_of_memory(what);
    return fail(Code::internal, fmt::format("{}: {}", doing, what));
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
  // from_blob only looks; copy_ brings the bytes to wherever ours is.
  ours.copy_(torch::from_blob(const_cast<char*>(stored.data.data()), ours.sizes(),
                              torch::dtype(ours.scalar_type())));
}

}  // namespace

struct Learner::Torch {
  Setup setup;
  std::shared_ptr<Network> network;
  std::vector<std::pair<std::string, torch::Tensor>> parameters;
  std::unique_ptr<torch::optim::SGD> optimizer;
  torch::Device device = torch::kCPU;
  std::unique_ptr<BatchDoor> door;
  std::optional<LateResults> results;
  DeviceBatch batch;  // what put() brought

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

namespace {

// Copies on the host, where they are not there already; waits for a GPU's queue.
NamedTensors on_host(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.cpu();
  return tensors;
}

Status check_channels(const Learner::Setup& setup) {
  for (const auto* values : {&setup.model.mean, &setup.model.stddev}) {
    const auto count = static_cast<int64_t>(values->size());
    if (count == 1 || count == setup.shape.channels) continue;
    return fail(Code::invalid,
                fmt::format("model.mean and model.stddev want 1 value, or {}, one for each channel "
                            "of the data; got {}",
                            setup.shape.channels, count));
  }
  return {};
}

}  // namespace

Learner::Learner(std::unique_ptr<Torch> torch) : torch_(std::move(torch)) {}
Learner::~Learner() = default;

Result<std::unique_ptr<Learner>> Learner::create(const Setup& setup) {
  return guarded("build the model", [&]() -> Result<std::unique_ptr<Learner>> {
    at::set_num_threads(static_cast<int>(setup.threads));
    at::globalContext().setDeterministicAlgorithms(setup.deterministic, /*warn_only=*/false);
    at::globalContext().setBenchmarkCuDNN(!setup.deterministic);
    RETURN_IF_ERROR(check_channels(setup));
    auto state = std::make_unique<Torch>();
    state->setup = setup;
    torch::manual_seed(random_value(setup.seed, Stream::init, 0));
    ASSIGN_OR_RETURN(state->network,
                     make_network(setup.model, {setup.shape.channels, setup.shape.height,
                                                setup.shape.width, setup.classes}));
    // The first weights are drawn on the CPU, so that they are the same for every device.
    state->device = torch::Device(setup.device);
    state->network->to(state->device);
    state->results.emplace(state->device);
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
    const auto mean = channel_values(setup.model.mean, setup.shape.channels).to(state->device);
    const auto stddev = channel_values(setup.model.stddev, setup.shape.channels).to(state->device);
    if (state->device.is_cuda()) {
      ASSIGN_OR_RETURN(state->door, make_cuda_door(mean, stddev, setup.kernels));
    } else {
      state->door = make_cpu_door(mean, stddev);
    }
    return std::unique_ptr<Learner>(new Learner(std::move(state)));
  });
}

Status Learner::put(const Batch& batch) {
  return guarded("bring a batch to the device", [&]() -> Status {
    ASSIGN_OR_RETURN(torch_->batch, torch_->door->put(batch));
    return {};
  });
}

Result<StepResults> Learner::step(int64_t step, double learning_rate) {
  return guarded("train a step", [&]() -> Result<StepResults> {
    Torch& t = *torch_;
    t.results->begin_step();
    torch::manual_seed(random_value(t.setup.seed, Stream::step, static_cast<uint64_t>(step)));
    t.network->train();
    const torch::Tensor logits = t.network->forward(t.batch.images);
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        logits, t.batch.labels,
        torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(t.setup.label_smoothing));
    if (t.device.is_cpu()) {
      // Costs nothing here, and keeps the weights from becoming NaN too.
      const double value = loss.item<float>();
      if (!std::isfinite(value)) return diverged(value, step);
    }
    t.optimizer->zero_grad();
    loss.backward();
    for (auto& group : t.optimizer->param_groups()) group.options().set_lr(learning_rate);
    t.optimizer->step();
    t.results->end_step(step, loss, logits.detach().argmax(1).eq(t.batch.labels).sum());
    return t.results->take(/*wait_for_all=*/false);
  });
}

Result<StepResults> Learner::finish_steps() {
  return guarded("finish the steps", [&]() -> Result<StepResults> {
    return torch_->results->take(/*wait_for_all=*/true);
  });
}

Result<EvaluationSums> Learner::evaluate() {
  return guarded("evaluate", [&]() -> Result<EvaluationSums> {
    const torch::NoGradGuard no_grad;
    Torch& t = *torch_;
    t.network->eval();
    const torch::Tensor& labels = t.batch.labels;
    const torch::Tensor logits = t.network->forward(t.batch.images);
    // Label smoothing is a training device; the test loss is the plain one, so that runs compare.
    const torch::Tensor losses = torch::nn::functional::cross_entropy(
        logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    const int64_t best = std::min<int64_t>(5, t.setup.classes);
    const torch::Tensor hits = std::get<1>(logits.topk(best, 1)).eq(labels.unsqueeze(1));
    EvaluationSums sums;
    sums.loss = losses.item<float>();
    sums.top1 = hits.select(1, 0).sum().item<int64_t>();
    sums.top5 = hits.sum().item<int64_t>();
    sums.samples = labels.size(0);
    return sums;
  });
}

Result<Bytes> Learner::save() const {
  return guarded("save the model", [&]() -> Result<Bytes> {
    NamedTensors momenta;
    for (const auto& [name, parameter] : torch_->parameters) {
      const torch::Tensor momentum = torch_->momentum(parameter);
      if (momentum.defined()) momenta[name] = momentum;
    }
    const NamedTensors model = on_host(torch_->model_tensors());
    momenta = on_host(std::move(momenta));
    Safetensors file;
    for (const auto& [name, tensor] : model) {
      file.tensors.push_back(view_of(kModelPrefix + name, tensor));
    }
    for (const auto& [name, tensor] : momenta) {
      file.tensors.push_back(view_of(kMomentumPrefix + name, tensor));
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
    const NamedTensors model = on_host(torch_->model_tensors());
    for (const auto& [name, tensor] : model) file.tensors.push_back(view_of(name, tensor));
    return write_safetensors(file);
  });
}

int64_t Learner::parameters() const {
  int64_t count = 0;
  for (const auto& [name, parameter] : torch_->parameters) count += parameter.numel();
  return count;
}

DeviceUse Learner::device_use() const {
  DeviceUse use{.compute = torch_->results->computed(),
                .steps = torch_->results->steps(),
                .dry_steps = torch_->results->dry_steps()};
  if (!torch_->device.is_cuda()) return use;
  try {
    const auto stats =
        at::getDeviceAllocator(torch_->device.type())->getDeviceStats(torch_->device.index());
    use.peak_memory_bytes = stats.allocated_bytes[0].peak;  // [0]: of all kinds together
  } catch (const c10::Error&) {
    use.peak_memory_bytes = 0;  // a figure for the report is no reason to fail
  }
  return use;
}

std::string instruction_set() { return at::get_cpu_capability(); }

Result<std::string> arithmetic_fingerprint(Learner::Setup setup) {
  // About as many pixels for small images as for large ones, so that it takes no longer.
  constexpr int64_t kPixels = 65'536;
  const int64_t samples =
      std::clamp<int64_t>(kPixels / std::max<int64_t>(1, setup.shape.height * setup.shape.width),
                          /*lo=*/2, /*hi=*/32);
  // What a run chooses is fixed here, so that only the network's shape and the machine are left.
  setup.seed = 0;
  setup.optimizer = {};
  setup.label_smoothing = 0;
  setup.model.dropout = 0;
  setup.model.mean = {0.5};
  setup.model.stddev = {0.25};
  Batch batch{.positions = {0, samples}, .shape = setup.shape};
  batch.images.resize(static_cast<size_t>(samples * setup.shape.bytes()));
  Random random(setup.seed, Stream::fingerprint, 0);
  for (uint8_t& pixel : batch.images) pixel = static_cast<uint8_t>(random.next() >> 24U);
  for (int64_t i = 0; i < samples; ++i) batch.labels.push_back(i % setup.classes);

  ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner, Learner::create(setup));
  RETURN_IF_ERROR(learner->put(batch));
  RETURN_IF_ERROR(learner->step(/*step=*/0, /*learning_rate=*/0.01));
  RETURN_IF_ERROR(learner->finish_steps());
  ASSIGN_OR_RETURN(const Bytes left, learner->save());
  return to_hex(sha256(left)).substr(0, 16);
}

}  // namespace tern
