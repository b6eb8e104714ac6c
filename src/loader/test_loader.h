// What the loader's tests load from.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "dataset/plan.h"
#include "loader/loader.h"

namespace tern {

inline constexpr std::chrono::seconds kFarTooLong{60};

// Samples whose pixels tell which they are. Tests choose what happens when one is read.
class ScriptedDataset : public Dataset {
 public:
  explicit ScriptedDataset(int64_t samples, int64_t classes = 7)
      : samples_(samples), classes_(classes) {}

  int64_t size() const override { return samples_; }
  int64_t classes() const override { return classes_; }
  ImageShape shape() const override { return {2, 5, 4}; }
  ImageInfo info(int64_t sample) const override {
    return {.size = size_of_ ? size_of_(sample) : ImageSize{4, 5}, .channels = 2};
  }
  int64_t label(int64_t sample) const override {
    if (on_label_) on_label_(sample);
    return sample % classes_;
  }
  const std::string& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  std::string where(int64_t sample) const override {
    return "sample-" + std::to_string(sample) + ".raw";
  }

  Result<BytesView> fetch(int64_t sample, Bytes& buffer) const override {
    reads_.fetch_add(1);
    buffer.resize(static_cast<size_t>(shape().bytes()));
    for (size_t i = 0; i < buffer.size(); ++i) {
      buffer[i] = static_cast<char>(static_cast<uint64_t>(sample) * 31 + i * 7 + 1);
    }
    if (on_read_) on_read_(sample);
    if (const auto bad = failing_.find(sample); bad != failing_.end()) {
      return fail(bad->second, "bad pixels; fetch it again");
    }
    MutexLock lock(mutex_);
    changed_.notify_all();
    if (const auto failures = first_.find(sample); failures != first_.end()) {
      auto& [left, code] = failures->second;
      if (left-- > 0) return fail(code, "no answer; try again");
    }
    const bool released = changed_.wait_for(lock, kFarTooLong, [&] {
      mutex_.assert_held();
      return !held_;
    });
    if (!released) return fail(Code::internal, "the test never released this read");
    return BytesView(buffer);
  }

  // With a view, every pixel is one that says what was asked for.
  Status decode(int64_t sample, BytesView stored, const View* view, ImageDecoder&,
                std::span<uint8_t> image) const override {
    if (const auto bad = undecodable_.find(sample); bad != undecodable_.end()) {
      return fail(bad->second, "bad codes; fetch it again");
    }
    if (view == nullptr) {
      if (image.size() != stored.size()) return fail(Code::internal, "wrong size");
      std::ranges::copy(stored, image.begin());
      return {};
    }
    if (image.size() != 2 * static_cast<size_t>(view->out_width * view->out_height)) {
      return fail(Code::internal, "wrong size");
    }
    std::ranges::fill(image, pixel_of(sample, *view));
    return {};
  }
  static uint8_t pixel_of(int64_t sample, const View& view) {
    const double sum = view.left * 3 + view.top * 5 + view.width * 7 + view.height * 11;
    return static_cast<uint8_t>(sample * 31 + static_cast<int64_t>(sum) + (view.mirror ? 101 : 0));
  }
  // What decoding it whole gives.
  std::vector<uint8_t> pixels(int64_t sample) const {
    Bytes buffer;
    const BytesView stored = fetch(sample, buffer).value();
    return {stored.begin(), stored.end()};
  }

  // Before any loader is made.
  void fail_at(int64_t sample, Code code = Code::corrupt) { failing_[sample] = code; }
  void fail_decoding_at(int64_t sample, Code code = Code::corrupt) { undecodable_[sample] = code; }
  // Any thread, at any time: so many reads from now on fail.
  void fail_first(int64_t sample, int reads, Code code) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    first_[sample] = {reads, code};
  }
  void sizes(std::function<ImageSize(int64_t sample)> size_of) { size_of_ = std::move(size_of); }
  // What happens inside every read or look at a label, in the thread that does it.
  void on_read(std::function<void(int64_t sample)> action) { on_read_ = std::move(action); }
  void on_label(std::function<void(int64_t sample)> action) { on_label_ = std::move(action); }

  // Reads begun from now on do not end until released.
  void hold() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    held_ = true;
  }
  void release() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

  int64_t reads() const { return reads_.load(); }
  // False if there were not so many reads after far too long.
  bool wait_for_reads(int64_t count) const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return changed_.wait_for(lock, kFarTooLong, [&] { return reads_.load() >= count; });
  }

 private:
  const int64_t samples_;
  const int64_t classes_;
  const std::string id_ = "scripted";
  const std::string name_ = "scripted:samples";
  std::map<int64_t, Code> failing_;
  std::map<int64_t, Code> undecodable_;
  std::function<ImageSize(int64_t)> size_of_;
  std::function<void(int64_t)> on_read_;
  std::function<void(int64_t)> on_label_;

  mutable std::atomic<int64_t> reads_ = 0;
  mutable ConditionVariable changed_;
  mutable Mutex mutex_;
  bool held_ GUARDED_BY(mutex_) = false;
  mutable std::map<int64_t, std::pair<int, Code>> first_ GUARDED_BY(mutex_);
};

// A data set with a plan for it, and a loader's setup that augments.
struct Given {
  ScriptedDataset dataset;
  Plan plan;

  Given(int64_t samples, int64_t global_batch, Order order = Order::shuffled, int64_t classes = 7)
      : dataset(samples, classes), plan(dataset.id(), samples, 11, global_batch, order) {}

  Loader::Setup setup(int64_t threads, int64_t epochs = 3) const {
    return {.dataset = &dataset,
            .plan = &plan,
            .seed = 11,
            .augment = {.pad_crop = 2, .flip = true},
            .options = {.threads = threads, .batches_ahead = 2},
            .epochs = epochs};
  }
};

// All batches from setup.start to the end.
inline std::vector<Batch> load_all(const Loader::Setup& setup) {
  Loader loader(setup);
  std::vector<Batch> batches;
  while (loader.position().epoch < setup.epochs) {
    const LoaderPosition at = loader.position();
    Result<Batch> batch = loader.next();
    if (!batch) {
      ADD_FAILURE() << batch.error().to_string();
      break;
    }
    EXPECT_EQ(at, (LoaderPosition{batch->epoch, batch->index}));
    batches.push_back(std::move(*batch));
  }
  EXPECT_EQ(loader.position(), (LoaderPosition{setup.epochs, 0}));
  return batches;
}

// Equal in all that training sees; how long was waited for them may differ.
inline void expect_equal(const std::vector<Batch>& actual, const std::vector<Batch>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].epoch, expected[i].epoch);
    ASSERT_EQ(actual[i].index, expected[i].index);
    ASSERT_EQ(actual[i].positions, expected[i].positions);
    ASSERT_EQ(actual[i].shape, expected[i].shape);
    ASSERT_EQ(actual[i].images, expected[i].images);
    ASSERT_EQ(actual[i].labels, expected[i].labels);
    ASSERT_EQ(actual[i].draws, expected[i].draws);
    ASSERT_EQ(actual[i].bad, expected[i].bad);
  }
}

}  // namespace tern
