// The learner's state as tensors in a file, and back.
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "train/learner.h"
#include "train/learner_torch.h"

namespace tern {
namespace {

constexpr char kModelPrefix[] = "model.";
constexpr char kMomentumPrefix[] = "momentum.";
constexpr char kAveragePrefix[] = "ema.";
constexpr char kScalerPrefix[] = "scaler.";
// Batch norm's count of batches, which files of PyTorch before 0.4.1 lack.
constexpr char kBatchCount[] = "num_batches_tracked";

using DtypeName = std::pair<const char*, torch::ScalarType>;
constexpr std::array<DtypeName, 6> kDtypes = {{{"F32", torch::kFloat32},
                                               {"F64", torch::kFloat64},
                                               {"F16", torch::kHalf},
                                               {"BF16", torch::kBFloat16},
                                               {"I64", torch::kInt64},
                                               {"I32", torch::kInt32}}};

std::string dtype_name(torch::ScalarType type) {
  for (const auto& [name, known] : kDtypes) {
    if (known == type) return name;
  }
  TERN_CHECK(false);
}

std::optional<torch::ScalarType> dtype_named(const std::string& wanted) {
  for (const auto& [name, type] : kDtypes) {
    if (wanted == name) return type;
  }
  return std::nullopt;
}

// Row-major copies on the host, where they are not so already: what a file holds does not depend on
// the device or the memory format. Waits for a GPU's queue.
NamedTensors for_a_file(NamedTensors tensors) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().contiguous().cpu();
  return tensors;
}

Safetensors file_of(const NamedTensors& tensors) {
  Safetensors file;
  for (const auto& [name, tensor] : tensors) {
    file.tensors.push_back({name,
                            dtype_name(tensor.scalar_type()),
                            tensor.sizes().vec(),
                            {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
  return file;
}

// A tensor of a file, and where it belongs.
struct Move {
  const TensorView* from = nullptr;
  torch::Tensor to;
};

void carry_out(const std::vector<Move>& moves) {
  const torch::NoGradGuard no_grad;
  for (const Move& move : moves) {
    // By way of memory of its own: a file's tensors need not be aligned.
    const torch::Tensor host =
        torch::empty(move.from->shape, torch::dtype(*dtype_named(move.from->dtype)));
    if (!move.from->data.empty()) {
      std::memcpy(host.mutable_data_ptr(), move.from->data.data(), move.from->data.size());
    }
    torch::Tensor(move.to).copy_(host);  // brings it to the device, the type and the memory format
  }
}

std::string describe_shape(const std::string& dtype, at::IntArrayRef shape) {
  return fmt::format("{} [{}]", dtype, fmt::join(shape, ", "));
}

std::string describe_misfit(const TensorView& stored, const torch::Tensor& ours) {
  return fmt::format("tensor '{}' is {} in the file and {} in the model", stored.name,
                     describe_shape(stored.dtype, stored.shape),
                     describe_shape(dtype_name(ours.scalar_type()), ours.sizes()));
}

bool holds(const NamedTensors& tensors, std::string_view prefix) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& item) { return item.first.starts_with(prefix); });
}

bool holds(const Safetensors& file, std::string_view prefix) {
  return std::any_of(file.tensors.begin(), file.tensors.end(),
                     [&](const TensorView& tensor) { return tensor.name.starts_with(prefix); });
}

// Everything that does not fit, in one error.
Status refuse(const std::vector<std::string>& complaints, const char* what_to_try) {
  if (complaints.empty()) return {};
  return fail(Code::failed_precondition,
              fmt::format("{}; {}", fmt::join(complaints, "; "), what_to_try));
}

// The state's tensors in the file. What a run began to keep later (a branch with a moving average)
// is not in it as a whole, and what it keeps no longer is not in the state.
Result<std::vector<Move>> match_state(const Safetensors& file, const NamedTensors& state) {
  std::map<std::string, torch::Tensor> missing;
  for (const auto& [name, tensor] : state) missing[name] = tensor;
  for (const char* prefix : {kMomentumPrefix, kAveragePrefix, kScalerPrefix}) {
    if (holds(file, prefix)) continue;
    std::erase_if(missing, [&](const auto& item) { return item.first.starts_with(prefix); });
  }
  std::vector<Move> moves;
  std::vector<std::string> complaints;
  for (const TensorView& stored : file.tensors) {
    const auto ours = missing.find(stored.name);
    if (ours == missing.end()) {
      const auto is_of = [&](const char* prefix) {
        return stored.name.starts_with(prefix) && !holds(state, prefix);
      };
      if (is_of(kMomentumPrefix) || is_of(kAveragePrefix) || is_of(kScalerPrefix)) continue;
      complaints.push_back(fmt::format("tensor '{}' is not part of this model", stored.name));
      continue;
    }
    if (dtype_name(ours->second.scalar_type()) != stored.dtype ||
        ours->second.sizes().vec() != stored.shape) {
      complaints.push_back(describe_misfit(stored, ours->second));
    }
    moves.push_back({&stored, ours->second});
    missing.erase(ours);
  }
  for (const auto& [name, tensor] : missing) {
    complaints.push_back(fmt::format("tensor '{}' is missing", name));
  }
  RETURN_IF_ERROR(
      refuse(complaints, "it is another model's; use the options that it was made with"));
  return moves;
}

// Whether two shapes are those of a last layer for different numbers of classes.
bool differs_in_classes(const TensorView& stored, const torch::Tensor& ours) {
  if (stored.shape.empty() || static_cast<int64_t>(stored.shape.size()) != ours.dim()) return false;
  if (stored.shape[0] == ours.size(0)) return false;
  return std::equal(stored.shape.begin() + 1, stored.shape.end(), ours.sizes().begin() + 1);
}

bool converts(const TensorView& stored, const torch::Tensor& ours) {
  const auto type = dtype_named(stored.dtype);
  return type && torch::isFloatingType(*type) == ours.is_floating_point();
}

}  // namespace

NamedTensors Learner::Torch::state() const {
  NamedTensors all;
  for (const auto* tensors : {&parameters, &buffers}) {
    for (const auto& [name, tensor] : *tensors) all.emplace_back(kModelPrefix + name, tensor);
  }
  for (size_t i = 0; i < optimizer->momenta().size(); ++i) {
    all.emplace_back(kMomentumPrefix + parameters[i].first, optimizer->momenta()[i]);
  }
  for (size_t i = 0; i < average.size(); ++i) {
    all.emplace_back(kAveragePrefix + parameters[i].first, average[i]);
  }
  if (scaler) {
    all.emplace_back(std::string(kScalerPrefix) + "scale", scaler->scale());
    all.emplace_back(std::string(kScalerPrefix) + "good_steps", scaler->good_steps());
  }
  return all;
}

void Learner::Torch::begin_average() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < average.size(); ++i) average[i].copy_(parameters[i].second);
}

Result<Bytes> Learner::save() const {
  return guarded("save the model", [&]() -> Result<Bytes> {
    const NamedTensors state = for_a_file(torch_->state());
    return write_safetensors(file_of(state));
  });
}

Status Learner::load(const Safetensors& state) {
  return guarded("load the model", [&]() -> Status {
    Torch& t = *torch_;
    ASSIGN_OR_RETURN(const std::vector<Move> moves, match_state(state, t.state()));
    if (t.late) t.late->forget();
    carry_out(moves);
    const torch::NoGradGuard no_grad;
    if (!holds(state, kMomentumPrefix)) {
      for (const torch::Tensor& momentum : t.optimizer->momenta()) momentum.zero_();
    }
    if (!holds(state, kAveragePrefix)) t.begin_average();
    if (t.scaler && !holds(state, kScalerPrefix)) t.scaler.emplace(t.device);
    return {};
  });
}

Result<Bytes> Learner::weights() const {
  return guarded("write the weights", [&]() -> Result<Bytes> {
    NamedTensors model = torch_->parameters;
    for (size_t i = 0; i < torch_->average.size(); ++i) model[i].second = torch_->average[i];
    model.insert(model.end(), torch_->buffers.begin(), torch_->buffers.end());
    model = for_a_file(std::move(model));
    Safetensors file = file_of(model);
    file.metadata["format"] = "pt";
    return write_safetensors(file);
  });
}

Result<InitReport> Learner::begin_with(const Safetensors& weights) {
  return guarded("begin with other weights", [&]() -> Result<InitReport> {
    Torch& t = *torch_;
    std::map<std::string, torch::Tensor> missing(t.parameters.begin(), t.parameters.end());
    missing.insert(t.buffers.begin(), t.buffers.end());
    const std::string head = t.network->head() + ".";
    InitReport report;
    std::vector<Move> moves;
    std::vector<std::string> complaints;
    for (const TensorView& stored : weights.tensors) {
      const auto ours = missing.find(stored.name);
      if (ours == missing.end()) {
        complaints.push_back(fmt::format("tensor '{}' is not part of this model", stored.name));
        continue;
      }
      const torch::Tensor tensor = ours->second;
      missing.erase(ours);
      if (converts(stored, tensor) && tensor.sizes().vec() == stored.shape) {
        moves.push_back({&stored, tensor});
      } else if (converts(stored, tensor) && stored.name.starts_with(head) &&
                 differs_in_classes(stored, tensor)) {
        report.head_replaced.push_back(stored.name);
      } else {
        complaints.push_back(describe_misfit(stored, tensor));
      }
    }
    std::vector<torch::Tensor> counts;
    for (const auto& [name, tensor] : missing) {
      if (name.ends_with(kBatchCount)) {
        counts.push_back(tensor);
      } else {
        complaints.push_back(fmt::format("tensor '{}' is missing", name));
      }
    }
    RETURN_IF_ERROR(refuse(complaints,
                           "the file must hold this model's weights under torchvision's names; "
                           "choose the model.name and model.stem that it was made with"));
    carry_out(moves);
    for (torch::Tensor& count : counts) count.zero_();
    t.begin_average();
    report.loaded = static_cast<int64_t>(moves.size());
    return report;
  });
}

}  // namespace tern
