#include "train/precision.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include "cuda/kernels.h"

namespace tern {

std::string_view precision_name(Precision precision) {
  switch (precision) {
    case Precision::fp32: return "fp32";
    case Precision::bf16: return "bf16";
    case Precision::fp16: return "fp16";
    case Precision::fp64: return "fp64";
  }
  TERN_CHECK(false);
}

Result<Precision> choose_precision(const std::string& option, const std::string& device,
                                   const std::filesystem::path& kernels) {
  for (const Precision precision :
       {Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp64}) {
    if (option == precision_name(precision)) return precision;
  }
  if (option != "mixed") {
    return fail(Code::invalid,
                fmt::format("train.precision = {}: there is no such; use fp32, mixed, bf16, fp16 "
                            "or fp64",
                            option));
  }
  if (device == kCpu) return Precision::bf16;
  ASSIGN_OR_RETURN(const auto library, CudaKernels::open(kernels));
  ASSIGN_OR_RETURN(const TernCudaType type, library->half_type(torch::Device(device).index()));
  return type == TERN_CUDA_BF16 ? Precision::bf16 : Precision::fp16;
}

torch::ScalarType compute_type(Precision precision) {
  if (precision == Precision::bf16) return torch::kBFloat16;
  if (precision == Precision::fp16) return torch::kHalf;
  return weight_type(precision);
}

MixedScope::MixedScope(torch::Device device, Precision precision)
    : device_(device.type()), is_mixed_(is_mixed(precision)) {
  if (!is_mixed_) return;
  at::autocast::set_autocast_dtype(device_, compute_type(precision));
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::increment_nesting();
}

MixedScope::~MixedScope() {
  if (!is_mixed_) return;
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

}  // namespace tern
