#include "train/speed_probe.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/version.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/machine.h"
#include "cuda/gpu.h"
#include "train/device.h"

namespace tern {
namespace {

// From small to large, until the next size would take too long: a matrix that is too small leaves a
// large machine idle, one that is too large keeps a small one for minutes.
constexpr int64_t kSmallest = 512;
constexpr int64_t kLargestOnCpu = 4096;  // 3 matrices of 64 MiB
constexpr int64_t kLargestOnGpu = 8192;  // 3 matrices of 256 MiB
constexpr int kProductsMax = 100;

class Product {
 public:
  Product(const ProbeRequest& request, int64_t size, torch::ScalarType type)
      : clock_(*request.clock), is_on_gpu_(request.device != kCpu), size_(size) {
    const auto options = torch::TensorOptions().device(torch::Device(request.device));
    // Ordinary numbers: on zeros a GPU draws less power and runs faster.
    a_ = torch::arange(size * size, options.dtype(torch::kFloat32)).sin().to(type);
    a_ = a_.reshape({size, size});
    b_ = a_.flip(0);
    out_ = torch::empty({size, size}, options.dtype(type));
    run_s();  // chooses kernels, touches memory
  }

  double run_s() {
    const Nanoseconds begin = clock_.now();
    at::mm_out(out_, a_, b_);
    if (is_on_gpu_) torch::cuda::synchronize();
    return to_seconds(clock_.now() - begin);
  }

  double flops() const {
    const auto n = static_cast<double>(size_);
    return 2 * n * n * n;
  }

 private:
  Clock& clock_;
  const bool is_on_gpu_;
  const int64_t size_;
  torch::Tensor a_;
  torch::Tensor b_;
  torch::Tensor out_;
};

// The best over all sizes: what this device reaches when it is left alone.
double measure_gflops(const ProbeRequest& request, torch::ScalarType type) {
  const int64_t largest = request.device == kCpu ? kLargestOnCpu : kLargestOnGpu;
  const double limit_s = to_seconds(request.limit);
  double best = 0;
  double left_s = limit_s;
  for (int64_t size = kSmallest; size <= largest && left_s > 0; size *= 2) {
    Product product(request, size, type);
    // At least three of each; the largest size takes what time is left.
    double spent_s = 0;
    for (int i = 0; i < kProductsMax && (i < 3 || spent_s < left_s / 4); ++i) {
      const double seconds = product.run_s();
      spent_s += seconds;
      if (seconds > 0) best = std::max(best, product.flops() / seconds);
      if (spent_s > left_s) break;
    }
    left_s -= spent_s;
    // The next size has eight times the work, four times over.
    if (best <= 0 || 8 * 4 * product.flops() / best > left_s) break;
  }
  return best / 1e9;
}

// Emulated bfloat16 says nothing that is worth knowing.
bool has_bfloat16(const std::string& device) {
  if (device == kCpu) return cpu_has_bfloat16(read_machine());
  const auto driver = GpuDriver::open();
  if (!driver.has_value()) return false;
  const auto gpus = (*driver)->gpus();
  return gpus.has_value() && !gpus->empty() && gpus->front().capability_major >= 8;
}

std::string measure(const ProbeRequest& request) {
  at::NoGradGuard no_gradients;
  at::set_num_threads(static_cast<int>(std::clamp<int64_t>(request.threads, 1, 1024)));
  nlohmann::json answer = {{"device", request.device},
                           {"libtorch", fmt::format("{}.{}.{}", TORCH_VERSION_MAJOR,
                                                    TORCH_VERSION_MINOR, TORCH_VERSION_PATCH)},
                           {"kernels", at::get_cpu_capability()},
                           {"threads", at::get_num_threads()},
                           {"float32_gflops", measure_gflops(request, torch::kFloat32)}};
  if (has_bfloat16(request.device)) {
    answer["bfloat16_gflops"] = measure_gflops(request, torch::kBFloat16);
  }
  return answer.dump();
}

}  // namespace

Result<std::string> probe_speed(const ProbeRequest& request) {
  if (request.device != kCpu && request.device != kCuda) {
    return fail(Code::invalid,
                fmt::format("cannot measure {}; give {} or {}", request.device, kCpu, kCuda));
  }
  if (request.device == kCuda) {
    RETURN_IF_ERROR(open_cuda(/*gpus_are_hidden=*/false));
  }
  try {
    return measure(request);
  } catch (const c10::OutOfMemoryError& error) {
    return fail(Code::exhausted, fmt::format("no memory for a matrix product: {}; end what uses it",
                                             error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return fail(Code::internal, fmt::format("matrix product: {}", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return fail(Code::internal, fmt::format("matrix product: {}", error.what()));
  }
}

}  // namespace tern
