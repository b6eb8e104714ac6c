#include "train/memory_estimate.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/mutex.h"
#include "core/random.h"
#include "model/model_names.h"

namespace tern {
namespace {

// Two points make a line. Not 1: batch norm refuses a single value a channel.
constexpr int64_t kFew = 2;
constexpr int64_t kMore = 4;
constexpr int64_t kSideMeasured = 32;

// Follows what LibTorch's CPU allocator reports of the thread that holds the guard, and of those
// that work for it.
class AllocationTrace final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/, int64_t size, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    MutexLock lock(mutex_);
    held_ += size;  // what is freed is reported as a negative size
    moments_.push_back(held_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  // What was held after each allocation since the last call.
  std::vector<int64_t> take_moments() {
    MutexLock lock(mutex_);
    return std::exchange(moments_, {});
  }

 private:
  Mutex mutex_;
  int64_t held_ GUARDED_BY(mutex_) = 0;
  std::vector<int64_t> moments_ GUARDED_BY(mutex_);
};

struct Moments {
  std::vector<int64_t> train;
  std::vector<int64_t> evaluate;
};

Result<Moments> follow(Learner& learner, const Batch& batch, AllocationTrace& trace) {
  Moments moments;
  // The first step with a batch makes what later ones find: gradients, momentum, kernels.
  for (int64_t step = 0; step < 2; ++step) {
    trace.take_moments();
    RETURN_IF_ERROR(learner.put(batch));
    RETURN_IF_ERROR(learner.step(step, /*learning_rate=*/0));
    moments.train = trace.take_moments();
  }
  RETURN_IF_ERROR(learner.put(batch));
  RETURN_IF_ERROR(learner.evaluate());
  moments.evaluate = trace.take_moments();
  return moments;
}

LinearBytes line_through(int64_t few_bytes, int64_t more_bytes) {
  const int64_t per_sample = std::max<int64_t>(0, (more_bytes - few_bytes) / (kMore - kFew));
  return {.fixed = std::max<int64_t>(0, few_bytes - kFew * per_sample), .per_sample = per_sample};
}

// The same calls make the same allocations. Where a kernel was chosen by the number of samples they
// are not the same, and the highest moments have to stand for all.
MemoryCurve curve_through(const std::vector<int64_t>& few, const std::vector<int64_t>& more) {
  if (few.size() != more.size()) {
    return {{line_through(*std::ranges::max_element(few), *std::ranges::max_element(more))}};
  }
  MemoryCurve curve;
  for (size_t i = 0; i < few.size(); ++i) {
    curve.moments.push_back(line_through(few[i], more[i]));
  }
  return curve;
}

void scale(MemoryCurve& curve, double factor) {
  for (LinearBytes& moment : curve.moments) {
    moment.per_sample = std::llround(static_cast<double>(moment.per_sample) * factor);
  }
}

}  // namespace

int64_t MemoryCurve::at(int64_t samples) const {
  int64_t most = 0;
  for (const LinearBytes& moment : moments) most = std::max(most, moment.at(samples));
  return most;
}

int64_t MemoryEstimate::at(int64_t batch, int64_t pieces, int64_t evaluate_batch) const {
  const int64_t piece = (batch + pieces - 1) / pieces;
  const int64_t training = train.at(piece) + (batch - piece) * input_bytes_per_sample;
  return evaluate_batch > 0 ? std::max(training, evaluate.at(evaluate_batch)) : training;
}

MemoryEstimate MemoryEstimate::with_pixels(double factor) const {
  MemoryEstimate scaled = *this;
  scale(scaled.train, factor);
  scale(scaled.evaluate, factor);
  scaled.input_bytes_per_sample =
      std::llround(static_cast<double>(input_bytes_per_sample) * factor);
  return scaled;
}

ImageShape shape_to_measure(const std::string& model_name, ImageShape shape) {
  if (!takes_any_size(model_name)) return shape;
  shape.height = std::min(shape.height, kSideMeasured);
  shape.width = std::min(shape.width, kSideMeasured);
  return shape;
}

Batch synthetic_batch(ImageShape shape, int64_t classes, int64_t samples) {
  Batch batch{.positions = {0, samples}, .shape = shape};
  batch.images.resize(static_cast<size_t>(samples * shape.bytes()));
  Random random(/*seed=*/0, Stream::fingerprint, 0);
  size_t at = 0;
  while (at < batch.images.size()) {
    for (uint32_t bits = random.next(), i = 0; i < 4 && at < batch.images.size();
         ++i, bits >>= 8U) {
      batch.images[at++] = static_cast<uint8_t>(bits);
    }
  }
  for (int64_t i = 0; i < samples; ++i) batch.labels.push_back(i % classes);
  return batch;
}

Result<MemoryEstimate> estimate_memory(Learner::Setup setup) {
  setup.device = kCpu;
  setup.accumulate = 1;  // what is measured is one piece
  setup.threads = 1;     // quick on a busy machine too
  // No CPU computes in fp16; bf16 is as large.
  if (setup.precision == Precision::fp16) setup.precision = Precision::bf16;
  MemoryEstimate estimate;
  estimate.input_bytes_per_sample =
      setup.shape.bytes() *
      static_cast<int64_t>(setup.precision == Precision::fp64 ? sizeof(double) : sizeof(float));
  const auto trace = std::make_shared<AllocationTrace>();
  const c10::DebugInfoGuard followed(c10::DebugInfoKind::PROFILER_STATE, trace);
  ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner, Learner::create(setup));
  ASSIGN_OR_RETURN(const Moments few,
                   follow(*learner, synthetic_batch(setup.shape, setup.classes, kFew), *trace));
  ASSIGN_OR_RETURN(const Moments more,
                   follow(*learner, synthetic_batch(setup.shape, setup.classes, kMore), *trace));
  estimate.train = curve_through(few.train, more.train);
  estimate.evaluate = curve_through(few.evaluate, more.evaluate);
  estimate.parameters = learner->parameters();
  ASSIGN_OR_RETURN(const Bytes saved, learner->save());
  estimate.checkpoint_bytes = static_cast<int64_t>(saved.size());
  ASSIGN_OR_RETURN(const Bytes weights, learner->weights());
  estimate.weights_bytes = static_cast<int64_t>(weights.size());
  return estimate;
}

}  // namespace tern
