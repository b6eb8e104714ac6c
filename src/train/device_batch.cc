#include "train/device_batch.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <array>
#include <cstring>
#include <optional>

#include "cuda/kernels.h"

namespace tern {
namespace {

std::array<int64_t, 4> image_sizes(const Batch& batch) {
  return {batch.samples(), batch.shape.channels, batch.shape.height, batch.shape.width};
}

torch::MemoryFormat memory_format(const BatchDoor::Setup& setup) {
  return setup.is_channels_last ? torch::MemoryFormat::ChannelsLast
                                : torch::MemoryFormat::Contiguous;
}

// A pixel has 256 values, so all results are worked out once: a batch is then one pass of looking
// up, where LibTorch's operations would make four.
template <typename Number>
class CpuDoor final : public BatchDoor {
 public:
  explicit CpuDoor(const Setup& setup) : setup_(setup), tables_(setup.mean.size()) {
    for (size_t channel = 0; channel < tables_.size(); ++channel) {
      const auto mean = static_cast<Number>(setup.mean[channel]);
      const auto stddev = static_cast<Number>(setup.stddev[channel]);
      for (size_t value = 0; value < 256; ++value) {
        tables_[channel][value] = (static_cast<Number>(value) / Number{255} - mean) / stddev;
      }
    }
  }

  Result<DeviceBatch> put(const Batch& batch) override {
    TERN_CHECK(batch.draws.empty());  // the loader's threads have augmented
    TERN_CHECK(batch.shape.channels == static_cast<int64_t>(tables_.size()));
    const DeviceBatch ready{
        torch::empty(image_sizes(batch), torch::dtype(setup_.type), memory_format(setup_)),
        torch::empty({batch.samples()}, torch::kInt64)};
    if (batch.samples() == 0) return ready;
    std::memcpy(ready.labels.mutable_data_ptr(), batch.labels.data(),
                batch.labels.size() * sizeof(int64_t));
    const auto pixels = static_cast<size_t>(batch.shape.height * batch.shape.width);
    const size_t channels = tables_.size();
    // Between the pixels of a channel, and from a channel to the next.
    const size_t step = setup_.is_channels_last ? channels : 1;
    const size_t next = setup_.is_channels_last ? 1 : pixels;
    const uint8_t* in = batch.images.data();
    auto* image = ready.images.template mutable_data_ptr<Number>();
    for (int64_t n = 0; n < batch.samples(); ++n, image += channels * pixels) {
      for (size_t channel = 0; channel < channels; ++channel, in += pixels) {
        const auto& table = tables_[channel];
        Number* out = image + channel * next;
        for (size_t i = 0; i < pixels; ++i) out[i * step] = table[in[i]];
      }
    }
    return ready;
  }

 private:
  const Setup setup_;
  std::vector<std::array<Number, 256>> tables_;
};

// Copies to a GPU are made behind the step loop's back, so what they read must stay as it is until
// they are done. Each slot is used again only after its event.
class CudaDoor final : public BatchDoor {
 public:
  CudaDoor(const Setup& setup, std::unique_ptr<CudaKernels> kernels)
      : setup_(setup),
        kernels_(std::move(kernels)),
        is_double_(setup.type == torch::kFloat64),
        mean_(channel_values(setup.mean)),
        stddev_(channel_values(setup.stddev)),
        kernel_mean_(is_double_ ? torch::zeros_like(mean_, torch::kFloat32) : mean_),
        kernel_stddev_(is_double_ ? torch::ones_like(mean_, torch::kFloat32) : stddev_),
        copies_(c10::impl::VirtualGuardImpl(setup.device.type())
                    .getStreamFromGlobalPool(setup.device)) {}

  Result<DeviceBatch> put(const Batch& batch) override {
    Slot& slot = slots_[next_slot_];
    next_slot_ = (next_slot_ + 1) % slots_.size();
    if (slot.copied) slot.copied->synchronize();
    const c10::impl::VirtualGuardImpl guard(setup_.device.type());
    const c10::Stream compute = guard.getStream(setup_.device);
    // Copies have a stream of their own, so that they run beside the steps before this one.
    std::optional<c10::StreamGuard> on_copies(copies_);
    const torch::Tensor pixels = send(slot.images, batch.images.data(), batch.images.size());
    const torch::Tensor labels =
        send(slot.labels, batch.labels.data(), batch.labels.size() * sizeof(int64_t))
            .view(torch::kInt64);
    torch::Tensor crops;
    if (!batch.draws.empty()) {
      std::vector<TernCudaCrop> packed;
      packed.reserve(batch.draws.size());
      for (const AugmentDraw& draw : batch.draws) {
        packed.push_back({draw.down, draw.right, draw.mirror ? uint8_t{1} : uint8_t{0}, 0});
      }
      crops = send(slot.crops, packed.data(), packed.size() * sizeof(TernCudaCrop));
    }
    slot.copied.emplace(setup_.device.type());
    slot.copied->record(copies_);
    on_copies.reset();
    slot.copied->block(compute);
    // LibTorch's allocator hands their memory out again only when `compute` is done with it too.
    for (const torch::Tensor& sent : {pixels, labels, crops}) {
      if (sent.defined()) guard.recordDataPtrOnStream(sent.storage().data_ptr(), compute);
    }
    ASSIGN_OR_RETURN(const torch::Tensor images, prepare(batch, pixels, crops));
    return DeviceBatch{is_double_ ? in_double(images) : images, labels};
  }

 private:
  struct Slot {
    torch::Tensor images, labels, crops;  // pinned bytes
    std::optional<c10::Event> copied;
  };

  torch::Tensor channel_values(const std::vector<double>& values) const {
    return torch::tensor(values, torch::kFloat64)
        .to(is_double_ ? torch::kFloat64 : torch::kFloat32)
        .to(setup_.device);
  }

  // Into pinned memory, which grows as it must, and from there to the GPU.
  torch::Tensor send(torch::Tensor& pinned, const void* data, size_t bytes) const {
    const auto size = static_cast<int64_t>(bytes);
    if (!pinned.defined() || pinned.numel() < size) {
      pinned = torch::empty({size}, torch::dtype(torch::kUInt8).pinned_memory(true));
    }
    if (bytes > 0) std::memcpy(pinned.mutable_data_ptr(), data, bytes);
    return pinned.narrow(0, 0, size).to(setup_.device, /*non_blocking=*/true);
  }

  TernCudaType kernel_type() const {
    if (setup_.type == torch::kBFloat16) return TERN_CUDA_BF16;
    return setup_.type == torch::kHalf ? TERN_CUDA_F16 : TERN_CUDA_F32;
  }

  Result<torch::Tensor> prepare(const Batch& batch, const torch::Tensor& pixels,
                                const torch::Tensor& crops) const {
    const torch::Tensor images =
        torch::empty(image_sizes(batch),
                     torch::dtype(is_double_ ? torch::kFloat32 : setup_.type).device(setup_.device),
                     memory_format(setup_));
    const c10::impl::VirtualGuardImpl guard(setup_.device.type());
    RETURN_IF_ERROR(kernels_->prepare(
        {.images = pixels.const_data_ptr<uint8_t>(),
         .crops = crops.defined() ? reinterpret_cast<const TernCudaCrop*>(crops.const_data_ptr())
                                  : nullptr,
         .mean = kernel_mean_.const_data_ptr<float>(),
         .stddev = kernel_stddev_.const_data_ptr<float>(),
         .out = images.mutable_data_ptr(),
         .count = batch.samples(),
         .channels = static_cast<int32_t>(batch.shape.channels),
         .height = static_cast<int32_t>(batch.shape.height),
         .width = static_cast<int32_t>(batch.shape.width),
         .type = kernel_type(),
         .layout = setup_.is_channels_last ? TERN_CUDA_NHWC : TERN_CUDA_NCHW},
        guard.getStream(setup_.device).native_handle()));
    return images;
  }

  // The kernel has no double: it has cropped, and divided by 255, from which the pixel's value
  // comes back exactly.
  torch::Tensor in_double(const torch::Tensor& images) const {
    const int64_t channels = mean_.numel();
    return images.mul(255)
        .round_()
        .to(torch::kFloat64)
        .div_(255)
        .sub_(mean_.view({1, channels, 1, 1}))
        .div_(stddev_.view({1, channels, 1, 1}));
  }

  // Constant after construction.
  const Setup setup_;
  const std::unique_ptr<CudaKernels> kernels_;
  const bool is_double_;
  const torch::Tensor mean_, stddev_, kernel_mean_, kernel_stddev_;
  const c10::Stream copies_;

  std::array<Slot, 4> slots_;
  size_t next_slot_ = 0;
};

}  // namespace

Result<std::unique_ptr<BatchDoor>> BatchDoor::open(const Setup& setup) {
  if (setup.device.is_cuda()) {
    ASSIGN_OR_RETURN(auto kernels, CudaKernels::open(setup.kernels));
    return std::make_unique<CudaDoor>(setup, std::move(kernels));
  }
  if (setup.type == torch::kFloat64) return std::make_unique<CpuDoor<double>>(setup);
  TERN_CHECK(setup.type == torch::kFloat32);
  return std::make_unique<CpuDoor<float>>(setup);
}

}  // namespace tern
