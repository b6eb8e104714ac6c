#include "train/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <malloc.h>

#include "train/kept_blocks.h"

namespace tern {
namespace {

KeptBlocks& blocks() {
  static auto* const all = new KeptBlocks;  // tensors may outlive every static object
  return *all;
}

constexpr c10::DeviceType kDevice = c10::DeviceType::CPU;

// For whoever follows how much memory a step takes, as `tern plan` does.
void report(void* data, int64_t change) {
  if (!c10::memoryProfilingEnabled()) return;
  c10::reportMemoryUsageToProfiler(data, change, blocks().use().in_use, 0, kDevice);
}

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const data = blocks().take(bytes);
    TORCH_CHECK(bytes == 0 || data != nullptr, "not enough memory: you tried to allocate ", bytes,
                " bytes.");
    if (data != nullptr) report(data, static_cast<int64_t>(KeptBlocks::bytes_of(data)));
    return {data, data, &give_back, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void give_back(void* data) {
    if (data == nullptr) return;
    report(data, -static_cast<int64_t>(KeptBlocks::bytes_of(data)));
    blocks().give_back(data);
  }
};

}  // namespace

void keep_tensor_memory() {
  static auto* const allocator = new KeepingAllocator;
  c10::SetCPUAllocator(allocator, /*priority=*/255);
  // The same for what the libraries below LibTorch take from malloc; it allows no more than these.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

}  // namespace tern
