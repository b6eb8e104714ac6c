#include "train/learner.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "train/batch_pieces.h"
#include "train/learner_torch.h"
#include "train/precision.h"

namespace tern {
namespace {

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

std::vector<double> for_each_channel(const std::vector<double>& values, int64_t channels) {
  if (values.size() > 1) return values;
  return std::vector<double>(static_cast<size_t>(channels), values.at(0));
}

// Whether a pixel's channels lie beside each other in memory, which is what a GPU's tensor cores
// want for large networks. On a CPU it is what one thread measured: small-cnn takes 0.55 to 0.7 of
// the time, a ResNet 0.9 and in 16 bits 0.4, cifar-tutorial as long.
bool wants_channels_last(const Learner::Setup& setup) {
  if (setup.precision == Precision::fp64) return false;  // the fast libraries have none
  const bool is_resnet = setup.model.name.starts_with("resnet");
  return is_resnet || (setup.device == kCpu && setup.model.name == "small-cnn");
}

// Set by a run's options alone, so that a process's second learner is as its first.
void set_context(const Learner::Setup& setup) {
  at::Context& context = at::globalContext();
  at::set_num_threads(static_cast<int>(setup.threads));
  context.setDeterministicAlgorithms(setup.deterministic, /*warn_only=*/false);
  // Otherwise every new tensor is filled before it is written. Nothing here reads what it has not
  // written.
  context.setDeterministicFillUninitializedMemory(false);
  context.setBenchmarkCuDNN(!setup.deterministic);
}

}  // namespace

std::vector<torch::Tensor> Learner::Torch::parameter_tensors() const {
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor);
  return tensors;
}

Status Learner::Torch::place() {
  const torch::NoGradGuard no_grad;
  device = torch::Device(setup.device);
  is_channels_last = wants_channels_last(setup);
  network->to(device, weight_type(setup.precision));
  for (const auto& item : network->named_parameters()) {
    torch::Tensor parameter = item.value();
    if (is_channels_last && parameter.dim() == 4) {
      parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
    }
    parameters.emplace_back(item.key(), parameter);
    if (setup.ema > 0) average.push_back(parameter.detach().clone());
  }
  std::vector<torch::Tensor> buffer_tensors;
  for (const auto& item : network->named_buffers()) {
    buffers.emplace_back(item.key(), item.value());
    buffer_tensors.push_back(item.value());
  }
  optimizer = std::make_unique<Sgd>(setup.optimizer, parameter_tensors());
  if (setup.precision == Precision::fp16) {
    scaler.emplace(device);
    kept.emplace(buffer_tensors);
  }
  if (device.is_cuda()) late.emplace(device);
  ASSIGN_OR_RETURN(
      door, BatchDoor::open({.device = device,
                             .mean = for_each_channel(setup.model.mean, setup.shape.channels),
                             .stddev = for_each_channel(setup.model.stddev, setup.shape.channels),
                             .type = device.is_cuda() ? compute_type(setup.precision)
                                                      : weight_type(setup.precision),
                             .is_channels_last = is_channels_last,
                             .kernels = setup.kernels}));
  return {};
}

torch::Tensor Learner::Torch::forward(const torch::Tensor& images) {
  const MixedScope mixed(device, setup.precision);
  return network->forward(images).to(weight_type(setup.precision));
}

torch::Tensor Learner::Torch::loss(const torch::Tensor& logits, const torch::Tensor& labels) const {
  return at::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Mean,
                                /*ignore_index=*/-100, setup.label_smoothing);
}

void Learner::Torch::backward(const torch::Tensor& piece_loss, double share) {
  torch::Tensor scaled = share == 1 ? piece_loss : piece_loss * share;
  if (scaler) scaled = scaler->scaled(scaled);
  scaled.backward();
}

Result<StepResult> Learner::Torch::gradients_on_cpu(int64_t step) {
  StepResult result{.step = step};
  for (const BatchPiece& piece : split(batch, setup.accumulate)) {
    const torch::Tensor logits = forward(piece.images).contiguous();
    const torch::Tensor piece_loss = loss(logits, piece.labels);
    const auto value = piece_loss.item<double>();
    // Costs nothing here, and keeps the weights from becoming NaN too.
    if (!scaler && !std::isfinite(value)) return diverged(value, step);
    result.loss += value * piece.share;
    result.correct += count_correct(logits, piece.labels);
    backward(piece_loss, piece.share);
  }
  return result;
}

StepNumbers Learner::Torch::gradients_on_gpu() {
  StepNumbers numbers;
  const auto add = [](torch::Tensor& sum, const torch::Tensor& more) {
    sum = sum.defined() ? sum + more : more;
  };
  for (const BatchPiece& piece : split(batch, setup.accumulate)) {
    const torch::Tensor logits = forward(piece.images);
    const torch::Tensor piece_loss = loss(logits, piece.labels);
    add(numbers.correct,
        logits.detach().argmax(1).eq(piece.labels).sum(weight_type(setup.precision)));
    const torch::Tensor detached = piece_loss.detach();
    add(numbers.loss, piece.share == 1 ? detached : detached * piece.share);
    backward(piece_loss, piece.share);
  }
  return numbers;
}

void Learner::Torch::update(double learning_rate) {
  optimizer->step(learning_rate, scaler ? &*scaler : nullptr);
  const torch::NoGradGuard no_grad;
  if (scaler) kept->restore_if(scaler->found_inf());
  if (!average.empty()) {
    const std::vector<torch::Tensor> current = parameter_tensors();
    if (scaler) {
      // By 0 where the step was skipped.
      const torch::Tensor weight = (1 - scaler->found_inf()) * (1 - setup.ema);
      std::vector<torch::Tensor> way = at::_foreach_sub(current, average);
      at::_foreach_mul_(way, weight);
      at::_foreach_add_(average, way);
    } else {
      at::_foreach_lerp_(average, current, 1 - setup.ema);
    }
  }
  if (scaler) scaler->update();
}

Learner::Learner(std::unique_ptr<Torch> torch) : torch_(std::move(torch)) {}
Learner::~Learner() = default;

Result<std::unique_ptr<Learner>> Learner::create(const Setup& setup) {
  return guarded("build the model", [&]() -> Result<std::unique_ptr<Learner>> {
    set_context(setup);
    RETURN_IF_ERROR(check_channels(setup));
    auto state = std::make_unique<Torch>();
    state->setup = setup;
    // The first weights are drawn on the CPU in fp32, so that they are the same everywhere.
    torch::manual_seed(random_value(setup.seed, Stream::init, 0));
    ASSIGN_OR_RETURN(state->network,
                     make_network(setup.model, {setup.shape.channels, setup.shape.height,
                                                setup.shape.width, setup.classes}));
    RETURN_IF_ERROR(state->place());
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
    if (t.batch.labels.numel() == 0) {
      return fail(Code::corrupt, fmt::format("no sample of step {}'s batch can be read; `tern data "
                                             "verify` tells which are damaged",
                                             step + 1));
    }
    if (t.late) t.late->begin_step();
    // What is random inside the model; seeding costs as much as a small layer.
    if (t.setup.model.dropout > 0) {
      torch::manual_seed(random_value(t.setup.seed, Stream::step, static_cast<uint64_t>(step)));
    }
    if (!t.network->is_training()) t.network->train();
    if (t.kept) t.kept->keep();
    if (t.late) {
      StepNumbers numbers = t.gradients_on_gpu();
      t.update(learning_rate);
      if (t.scaler) {
        numbers.found_inf = t.scaler->found_inf();
        numbers.scale = t.scaler->scale();
      }
      t.late->end_step(step, numbers);
      return t.late->take(/*wait_for_all=*/false);
    }
    ASSIGN_OR_RETURN(StepResult result, t.gradients_on_cpu(step));
    t.update(learning_rate);
    double scale = 0;
    if (t.scaler) {
      result.is_skipped = t.scaler->found_inf().item<float>() != 0;
      scale = t.scaler->scale().item<float>();
    }
    ASSIGN_OR_RETURN(const StepResult good, judge(result, scale));
    return StepResults{good};
  });
}

Result<StepResults> Learner::finish_steps() {
  return guarded("finish the steps", [&]() -> Result<StepResults> {
    if (!torch_->late) return StepResults{};
    return torch_->late->take(/*wait_for_all=*/true);
  });
}

int64_t Learner::parameters() const {
  int64_t count = 0;
  for (const auto& [name, parameter] : torch_->parameters) count += parameter.numel();
  return count;
}

DeviceUse Learner::device_use() const {
  if (!torch_->late) return {};
  DeviceUse use{.compute = torch_->late->computed(),
                .steps = torch_->late->steps(),
                .dry_steps = torch_->late->dry_steps()};
  try {
    const auto stats =
        at::getDeviceAllocator(torch_->device.type())->getDeviceStats(torch_->device.index());
    use.peak_memory_bytes = stats.allocated_bytes[0].peak;  // [0]: of all kinds together
  } catch (const c10::Error&) {
    use.peak_memory_bytes = 0;  // a figure for the report is no reason to fail
  }
  return use;
}

}  // namespace tern
