#include "train/device_batch.h"

#include <c10/core/Event.h>
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

class CpuDoor final : public BatchDoor {
 public:
  CpuDoor(torch::Tensor mean, torch::Tensor stddev)
      : mean_(std::move(mean)), stddev_(std::move(stddev)) {}

  Result<DeviceBatch> put(const Batch& batch) override {
    TERN_CHECK(batch.draws.empty());  // the loader's threads have augmented
    // from_blob only looks; the conversion to float makes the copy that the step owns.
    const torch::Tensor pixels = torch::from_blob(const_cast<uint8_t*>(batch.images.data()),
                                                  image_sizes(batch), torch::kUInt8);
    const torch::Tensor labels =
        torch::from_blob(const_cast<int64_t*>(batch.labels.data()),
                         {static_cast<int64_t>(batch.labels.size())}, torch::kInt64);
    return DeviceBatch{pixels.to(torch::kFloat32).div_(255).sub_(mean_).div_(stddev_),
                       labels.clone()};
  }

 private:
  const torch::Tensor mean_, stddev_;
};

// Copies to a GPU are made behind the step loop's back, so what they read must stay as it is until
// they are done. Each slot is used again only after its event.
class CudaDoor final : public BatchDoor {
 public:
  CudaDoor(torch::Tensor mean, torch::Tensor stddev, std::unique_ptr<CudaKernels> kernels)
      : mean_(std::move(mean)), stddev_(std::move(stddev)), kernels_(std::move(kernels)) {}

  Result<DeviceBatch> put(const Batch& batch) override {
    Slot& slot = slots_[next_slot_];
    next_slot_ = (next_slot_ + 1) % slots_.size();
    if (slot.copied) slot.copied->synchronize();
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
    const c10::impl::VirtualGuardImpl guard(mean_.device().type());
    const c10::Stream stream = guard.getStream(mean_.device());
    slot.copied.emplace(mean_.device().type());
    slot.copied->record(stream);

    DeviceBatch ready{torch::empty(image_sizes(batch), mean_.options()), labels};
    RETURN_IF_ERROR(kernels_->prepare(
        {.images = pixels.const_data_ptr<uint8_t>(),
         .crops = crops.defined() ? reinterpret_cast<const TernCudaCrop*>(crops.const_data_ptr())
                                  : nullptr,
         .mean = mean_.const_data_ptr<float>(),
         .stddev = stddev_.const_data_ptr<float>(),
         .out = ready.images.mutable_data_ptr(),
         .count = batch.samples(),
         .channels = static_cast<int32_t>(batch.shape.channels),
         .height = static_cast<int32_t>(batch.shape.height),
         .width = static_cast<int32_t>(batch.shape.width),
         .type = TERN_CUDA_F32},
        stream.native_handle()));
    // What the kernel reads is given back to LibTorch's allocator here, which hands it out again
    // only to work behind it on the same stream.
    return ready;
  }

 private:
  struct Slot {
    torch::Tensor images, labels, crops;  // pinned bytes
    std::optional<c10::Event> copied;
  };

  // Into pinned memory, which grows as it must, and from there to the GPU.
  torch::Tensor send(torch::Tensor& pinned, const void* data, size_t bytes) const {
    const auto size = static_cast<int64_t>(bytes);
    if (!pinned.defined() || pinned.numel() < size) {
      pinned = torch::empty({size}, torch::dtype(torch::kUInt8).pinned_memory(true));
    }
    std::memcpy(pinned.mutable_data_ptr(), data, bytes);
    return pinned.narrow(0, 0, size).to(mean_.device(), /*non_blocking=*/true);
  }

  const torch::Tensor mean_, stddev_;
  const std::unique_ptr<CudaKernels> kernels_;
  std::array<Slot, 4> slots_;
  size_t next_slot_ = 0;
};

}  // namespace

std::unique_ptr<BatchDoor> make_cpu_door(torch::Tensor mean, torch::Tensor stddev) {
  return std::make_unique<CpuDoor>(std::move(mean), std::move(stddev));
}

Result<std::unique_ptr<BatchDoor>> make_cuda_door(torch::Tensor mean, torch::Tensor stddev,
                                                  const std::filesystem::path& kernels) {
  ASSIGN_OR_RETURN(auto library, CudaKernels::open(kernels));
  return std::unique_ptr<BatchDoor>(
      std::make_unique<CudaDoor>(std::move(mean), std::move(stddev), std::move(library)));
}

}  // namespace tern
