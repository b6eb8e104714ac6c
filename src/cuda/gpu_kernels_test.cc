// The kernels on a real GPU, held to prepare_reference.cc bit for bit. Skips where there is none.
//
// Carried to another machine, TERN_TEST_KERNELS names libtern_cuda.so there, and LD_LIBRARY_PATH
// has the folder of libcudart.so.13 (docs/gpu.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "cuda/cudart.h"
#include "cuda/kernels.h"
#include "cuda/prepare_reference.h"

namespace tern {
namespace {

constexpr size_t kGuardBytes = 512;
constexpr uint8_t kPoison = 0xA5;
constexpr int kTimedRuns = 21;

size_t bytes_of(int32_t type) { return type == TERN_CUDA_F32 ? 4 : 2; }

const char* name_of(int32_t type) {
  return type == TERN_CUDA_F32 ? "f32" : type == TERN_CUDA_F16 ? "f16" : "bf16";
}

struct Case {
  int64_t count = 1;
  int32_t channels = 1;
  int32_t height = 1;
  int32_t width = 1;
  int32_t type = TERN_CUDA_F32;
  int32_t layout = TERN_CUDA_NCHW;
  bool crops = true;
  int32_t crop_max = 127;  // crops are drawn from -crop_max to crop_max
  size_t images_off = 0;   // bytes, so that `images` is not aligned
  size_t out_off = 0;      // elements, likewise

  int64_t pixels() const { return count * channels * height * width; }
  std::string name() const {
    return std::to_string(count) + "x" + std::to_string(channels) + "x" + std::to_string(height) +
           "x" + std::to_string(width) + " " + name_of(type) +
           (layout == TERN_CUDA_NHWC ? " nhwc" : "") + (crops ? " cropped" : "") + " images+" +
           std::to_string(images_off) + " out+" + std::to_string(out_off);
  }
};

// A batch in host memory, drawn from `random`; every byte value is in it if it is large enough.
struct Batch {
  Batch(const Case& c, Random& random) {
    images.resize(static_cast<size_t>(c.pixels()));
    uint32_t four = 0;
    for (size_t i = 0; i < images.size(); ++i) {
      four = i % 4 == 0 ? random.next() : four >> 8;
      images[i] = static_cast<uint8_t>(i < 256 ? i : four);
    }
    for (int64_t n = 0; c.crops && n < c.count; ++n) {
      const auto span = static_cast<uint32_t>(2 * c.crop_max + 1);
      const auto draw = [&] {
        return static_cast<int8_t>(static_cast<int>(random.below(span)) - c.crop_max);
      };
      // One in four is as it is, so that the plain path is seen among others.
      const bool plain = random.below(4) == 0;
      crops.push_back({.down = plain ? int8_t{0} : draw(),
                       .right = plain ? int8_t{0} : draw(),
                       .mirror = static_cast<uint8_t>(random.below(2) * (1 + random.below(255))),
                       .unused = static_cast<uint8_t>(random.next())});
    }
    for (int32_t i = 0; i < c.channels; ++i) {
      mean.push_back(random.uniform());
      stddev.push_back(0.01F + random.uniform());
    }
  }

  std::vector<uint8_t> images;
  std::vector<TernCudaCrop> crops;
  std::vector<float> mean;
  std::vector<float> stddev;
};

class GpuKernels : public testing::Test {
 protected:
  void SetUp() override {
    auto cudart = Cudart::open(TERN_CUDART);
    if (!cudart.has_value()) GTEST_SKIP() << cudart.error().message;
    cuda_ = std::move(*cudart);
    const char* given = std::getenv("TERN_TEST_KERNELS");
    const std::string library = given == nullptr ? TERN_KERNELS : given;
    if (library.empty()) GTEST_SKIP() << "this build has no libtern_cuda.so (scripts/fetch-nvcc)";
    auto kernels = CudaKernels::open(library);
    ASSERT_TRUE(kernels.has_value()) << kernels.error().message;
    kernels_ = std::move(*kernels);
  }

  void TearDown() override {
    for (void* memory : allocated_) EXPECT_EQ(cuda_->release(memory), 0);
  }

  uint8_t* allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cuda_->allocate(&memory, std::max<size_t>(bytes, 1)), 0) << bytes << " bytes";
    allocated_.push_back(memory);
    return static_cast<uint8_t*>(memory);
  }

  void release_all() {
    TearDown();
    allocated_.clear();
  }

  template <typename T>
  T* to_gpu(const std::vector<T>& values, size_t off_bytes = 0) {
    uint8_t* memory = allocate(values.size() * sizeof(T) + off_bytes) + off_bytes;
    EXPECT_EQ(cuda_->copy(memory, values.data(), values.size() * sizeof(T), kCopyByPointer), 0);
    return reinterpret_cast<T*>(memory);
  }

  // The batch on the GPU; `out` is left to the caller.
  TernCudaPrepare upload(const Case& c, const Batch& batch) {
    return {.images = to_gpu(batch.images, c.images_off),
            .crops = c.crops ? to_gpu(batch.crops) : nullptr,
            .mean = to_gpu(batch.mean),
            .stddev = to_gpu(batch.stddev),
            .count = c.count,
            .channels = c.channels,
            .height = c.height,
            .width = c.width,
            .type = c.type,
            .layout = c.layout};
  }

  static std::vector<uint8_t> reference(const Case& c, const Batch& batch) {
    std::vector<uint8_t> out(batch.images.size() * bytes_of(c.type));
    prepare_reference({.images = batch.images.data(),
                       .crops = c.crops ? batch.crops.data() : nullptr,
                       .mean = batch.mean.data(),
                       .stddev = batch.stddev.data(),
                       .out = out.data(),
                       .count = c.count,
                       .channels = c.channels,
                       .height = c.height,
                       .width = c.width,
                       .type = c.type,
                       .layout = c.layout});
    return out;
  }

  // Runs one batch between guard bytes, all poisoned, and compares every byte.
  void check(const Case& c, uint64_t seed) {
    SCOPED_TRACE(c.name() + " seed " + std::to_string(seed));
    Random random(seed, Stream::augment, 0);
    const Batch batch(c, random);
    TernCudaPrepare prepare = upload(c, batch);
    const std::vector<uint8_t> expected = reference(c, batch);
    const size_t begin = kGuardBytes + c.out_off * bytes_of(c.type);
    std::vector<uint8_t> out(begin + expected.size() + kGuardBytes);
    uint8_t* memory = allocate(out.size());
    ASSERT_EQ(cuda_->fill(memory, kPoison, out.size()), 0);
    prepare.out = memory + begin;
    const Status status = kernels_->prepare(prepare, nullptr);
    ASSERT_TRUE(status.has_value()) << status.error().message;
    ASSERT_EQ(cuda_->copy(out.data(), memory, out.size(), kCopyByPointer), 0);
    const auto at = [&](size_t i) { return out.begin() + static_cast<std::ptrdiff_t>(i); };
    const auto is_poison = [](uint8_t byte) { return byte == kPoison; };
    EXPECT_TRUE(std::all_of(out.begin(), at(begin), is_poison)) << "written before the batch";
    EXPECT_TRUE(std::all_of(at(begin + expected.size()), out.end(), is_poison))
        << "written after the batch";
    const auto differs = std::mismatch(expected.begin(), expected.end(), at(begin)).first;
    EXPECT_EQ(differs, expected.end())
        << "first at element " << (differs - expected.begin()) / std::ptrdiff_t(bytes_of(c.type));
    release_all();
  }

  // The median time of `work` on the default stream, by the GPU's own clock.
  template <typename Work>
  double median_ms(Work work) {
    void* begin = nullptr;
    void* end = nullptr;
    EXPECT_EQ(cuda_->create_event(&begin) | cuda_->create_event(&end), 0);
    std::vector<float> times;
    for (int i = 0; i < kTimedRuns + 3; ++i) {
      EXPECT_EQ(cuda_->record_event(begin, nullptr), 0);
      work();
      EXPECT_EQ(cuda_->record_event(end, nullptr) | cuda_->wait_for_event(end), 0);
      float ms = 0;
      EXPECT_EQ(cuda_->elapsed_ms(&ms, begin, end), 0);
      if (i >= 3) times.push_back(ms);  // the first ones load and warm up
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  std::unique_ptr<Cudart> cuda_;
  std::unique_ptr<CudaKernels> kernels_;
  std::vector<void*> allocated_;
};

TEST_F(GpuKernels, RandomBatchesEqualTheReference) {
  Random random(20, Stream::order, 0);
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const auto up_to = [&](uint32_t most) { return static_cast<int32_t>(1 + random.below(most)); };
    Case c{.count = up_to(40),
           .channels = random.below(2) == 0 ? 1 : up_to(4),
           .height = up_to(70),
           .width = up_to(70),
           .type = static_cast<int32_t>(random.below(3)),
           .layout = static_cast<int32_t>(random.below(2)),
           .crops = random.below(4) != 0,
           .crop_max = random.below(2) == 0 ? 4 : 64};
    if (random.below(2) == 0) c.width = 4 * ((c.width + 3) / 4);
    if (random.below(3) == 0) c.images_off = random.below(8);
    if (random.below(3) == 0) c.out_off = random.below(8);
    check(c, seed);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST_F(GpuKernels, OddShapesEqualTheReference) {
  const std::vector<Case> shapes = {
      {},                                                            // one pixel
      {.count = 70'000, .height = 3, .width = 1},                    // more than the grid's y
      {.count = 1, .channels = 70'000, .height = 2, .width = 4},     // and than its z
      {.count = 2, .channels = 3, .height = 2048, .width = 1500},    // split planes
      {.count = 1, .channels = 1, .height = 1, .width = 1'000'003},  // one long row
      {.count = 1, .channels = 1, .height = 1'000'003, .width = 1},  // one long column
      {.count = 300, .channels = 3, .height = 32, .width = 32, .crop_max = 4},
      {.count = 300, .channels = 1, .height = 28, .width = 28, .crop_max = 2},
      {.count = 9, .channels = 3, .height = 224, .width = 224},
      {.count = 9, .channels = 3, .height = 127, .width = 129},
      {.count = 20'000, .channels = 2, .height = 4, .width = 4},
  };
  for (Case c : shapes) {
    for (const int32_t type : {TERN_CUDA_F32, TERN_CUDA_F16, TERN_CUDA_BF16}) {
      c.type = type;
      c.layout = TERN_CUDA_NCHW;
      check(c, 7);
      c.layout = TERN_CUDA_NHWC;
      check(c, 7);
    }
  }
}

TEST_F(GpuKernels, EveryValueOfEveryChannelIsTheCpus) {
  // Means and deviations as users have them, and ends of the range: f16 overflows and underflows.
  for (const float stddev : {0.2470F, 0.3530F, 1.0F, 1e-6F, 3e7F}) {
    for (const int32_t type : {TERN_CUDA_F32, TERN_CUDA_F16, TERN_CUDA_BF16}) {
      const Case c{
          .count = 1, .channels = 2, .height = 16, .width = 16, .type = type, .crops = false};
      Random random(1, Stream::order, 0);
      Batch batch(c, random);
      for (size_t i = 0; i < 512; ++i) batch.images[i] = static_cast<uint8_t>(i);
      batch.mean = {0.4914F, 0.0F};
      batch.stddev = {stddev, stddev};
      TernCudaPrepare prepare = upload(c, batch);
      std::vector<uint8_t> out(512 * bytes_of(type));
      prepare.out = allocate(out.size());
      ASSERT_TRUE(kernels_->prepare(prepare, nullptr).has_value());
      ASSERT_EQ(cuda_->copy(out.data(), prepare.out, out.size(), kCopyByPointer), 0);
      EXPECT_TRUE(out == reference(c, batch)) << name_of(type) << " stddev " << stddev;
    }
  }
}

TEST_F(GpuKernels, MoreThanTwoToThe31PixelsAreCounted) {
  Case c{.count = 2'800'000, .height = 28, .width = 28, .type = TERN_CUDA_F16, .crops = false};
  const auto pixels = static_cast<size_t>(c.pixels());
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cuda_->free_memory(&free, &total), 0);
  if (free < 4 * pixels) GTEST_SKIP() << "needs " << (4 * pixels >> 30) + 1 << " GiB of GPU memory";
  const Case one{.height = 28, .width = 28, .type = TERN_CUDA_F16, .crops = false};
  Random random(3, Stream::order, 0);
  const Batch batch(one, random);
  const std::vector<uint8_t> expected = reference(one, batch);

  TernCudaPrepare prepare = upload(one, batch);
  uint8_t* images = allocate(pixels);
  uint8_t* out = allocate(2 * pixels);
  ASSERT_EQ(cuda_->fill(images, 7, pixels) | cuda_->fill(out, kPoison, 2 * pixels), 0);
  // The first image, those around 2^31 bytes of images and of results, and the last.
  const std::vector<size_t> marked = {0, 1'369'568, 1'369'569, 2'739'137, 2'739'138, 2'799'999};
  for (const size_t n : marked) {
    ASSERT_EQ(cuda_->copy(images + n * 784, batch.images.data(), 784, kCopyByPointer), 0);
  }
  prepare.images = images;
  prepare.out = out;
  prepare.count = c.count;
  ASSERT_TRUE(kernels_->prepare(prepare, nullptr).has_value());
  for (const size_t n : marked) {
    std::vector<uint8_t> image(2 * 784);
    ASSERT_EQ(cuda_->copy(image.data(), out + n * 2 * 784, image.size(), kCopyByPointer), 0);
    EXPECT_TRUE(image == expected) << "image " << n;
  }
}

TEST_F(GpuKernels, WorkGoesOntoTheStreamInOrder) {
  void* stream = nullptr;
  ASSERT_EQ(cuda_->create_stream(&stream), 0);
  const Case c{.count = 4096, .channels = 3, .height = 32, .width = 32, .crop_max = 4};
  Random random(5, Stream::order, 0);
  const Batch first(c, random);
  Batch second(c, random);
  second.mean = first.mean;
  second.stddev = first.stddev;
  second.crops = first.crops;
  TernCudaPrepare prepare = upload(c, first);
  const size_t bytes = first.images.size();
  std::vector<uint8_t> out(bytes * 4);
  prepare.out = allocate(out.size());
  ASSERT_TRUE(kernels_->prepare(prepare, stream).has_value());
  auto* images = const_cast<uint8_t*>(prepare.images);
  ASSERT_EQ(cuda_->copy_async(images, second.images.data(), bytes, kCopyByPointer, stream), 0);
  ASSERT_TRUE(kernels_->prepare(prepare, stream).has_value());
  ASSERT_EQ(cuda_->copy_async(out.data(), prepare.out, out.size(), kCopyByPointer, stream), 0);
  ASSERT_EQ(cuda_->synchronize(), 0);
  EXPECT_TRUE(out == reference(c, second));
}

TEST_F(GpuKernels, HalfTypeFollowsTheComputeCapability) {
  int major = 0;
  ASSERT_EQ(cuda_->get_attribute(&major, kCapabilityMajor, 0), 0);
  const Result<TernCudaType> type = kernels_->half_type(0);
  ASSERT_TRUE(type.has_value()) << type.error().message;
  EXPECT_EQ(*type, major >= 8 ? TERN_CUDA_BF16 : TERN_CUDA_F16);
}

// Each pixel is read and its result written once, so copying memory is the limit to compare with.
TEST_F(GpuKernels, SpeedIsNearThatOfCopyingMemory) {
  const size_t copied = size_t{1} << 29;
  uint8_t* from = allocate(copied);
  uint8_t* to = allocate(copied);
  const double copy_ms = median_ms(
      [&] { EXPECT_EQ(cuda_->copy_async(to, from, copied, kCopyByPointer, nullptr), 0); });
  const double copy_gbs = 2.0 * static_cast<double>(copied) / copy_ms / 1e6;
  std::printf("copying memory: %.0f GB/s, read and written\n", copy_gbs);
  release_all();
  const std::vector<Case> shapes = {
      {.count = 512, .channels = 3, .height = 32, .width = 32, .crop_max = 4},
      {.count = 65'536, .channels = 3, .height = 32, .width = 32, .crops = false},
      {.count = 65'536, .channels = 3, .height = 32, .width = 32, .crop_max = 4},
      {.count = 262'144, .channels = 1, .height = 28, .width = 28, .crop_max = 2},
      {.count = 2048, .channels = 3, .height = 224, .width = 224, .crop_max = 16},
      {.count = 2048, .channels = 3, .height = 225, .width = 225, .crop_max = 16},
  };
  for (Case c : shapes) {
    Random random(11, Stream::order, 0);
    const Batch batch(c, random);
    for (const int32_t type : {TERN_CUDA_F32, TERN_CUDA_F16, TERN_CUDA_BF16}) {
      c.type = type;
      TernCudaPrepare prepare = upload(c, batch);
      prepare.out = allocate(static_cast<size_t>(c.pixels()) * bytes_of(type));
      const double ms =
          median_ms([&] { EXPECT_TRUE(kernels_->prepare(prepare, nullptr).has_value()); });
      const double bytes = static_cast<double>(c.pixels()) * (1.0 + double(bytes_of(type)));
      const double gbs = bytes / ms / 1e6;
      std::printf("%-44s %8.1f us  %5.0f GB/s  %3.0f %% of copying\n", c.name().c_str(), ms * 1e3,
                  gbs, 100 * gbs / copy_gbs);
      // Half of it for what is large and aligned. Far below means that something is broken.
      const bool near = c.count > 512 && c.width % 4 == 0;
      EXPECT_GT(gbs, near ? 0.5 * copy_gbs : 0) << c.name();
      release_all();
    }
  }
}

}  // namespace
}  // namespace tern
