// The loader: turns positions of the plan into batches, ahead of need. Start here for feeding.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "dataset/dataset.h"
#include "dataset/plan.h"
#include "loader/augment.h"
#include "loader/data_wait.h"
#include "loader/options.h"

namespace tern {

// One batch (or a rank's share of it) as plain host buffers. Pixels stay uint8 until the device.
struct Batch {
  int64_t epoch = 0;
  int64_t index = 0;  // of the batch in its epoch
  PositionRange positions;
  ImageShape shape;
  std::vector<uint8_t> images;  // positions.size() images, CHW
  std::vector<int64_t> labels;
  std::vector<AugmentDraw> draws;  // what is still to be done to each image; empty: nothing
  DataWait waited;                 // how long next() waited; says nothing about the content
};

// Where a loader stands: the next batch it will give. This is all of its state; resume is a seek.
struct LoaderPosition {
  int64_t epoch = 0;
  int64_t batch = 0;

  bool operator==(const LoaderPosition&) const = default;
};

// Work is done out of order by threads, batches come out in order; at the end of an epoch the
// threads go on with the next. Augmentation is keyed by (seed, epoch, position), so batches are the
// same for any number of threads. Owned by the step loop: one thread calls next(), which blocks
// until the batch is ready. The clock only measures that. Memory is bounded by batches_ahead +
// threads batches.
class Loader {
 public:
  struct Setup {
    const Dataset* dataset = nullptr;  // outlives the loader
    const Plan* plan = nullptr;        // outlives the loader
    uint64_t seed = 0;
    AugmentOptions augment;
    LoaderOptions options;
    int64_t rank = 0;
    int64_t world = 1;
    LoaderPosition start;  // REQUIRES: a batch of the plan, or {epochs, 0}
    int64_t epochs = 1;    // next() after the last batch of epoch `epochs - 1` is a mistake of ours
    Clock* clock = nullptr;  // outlives the loader; null: nothing is measured, Batch::waited is 0
    bool leave_augmentation = false;  // draw it (Batch::draws), but leave the images as read
  };

  explicit Loader(const Setup& setup);
  ~Loader();  // stops the threads; never blocks for longer than one sample

  // The batch at position(), then moves on. Batch::waited is this call's wait: zero if the batch
  // was ready; with threads = 0, the time that the work itself took. An error names the sample; it
  // is given once, in order, and the loader is finished after it. If `stop` fires while it waits:
  // cancelled, nothing moves, and next() may be called again. REQUIRES: position() is not {epochs,
  // 0}; no error was given.
  Result<Batch> next(std::stop_token stop = {});
  LoaderPosition position() const;

 private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

// Makes one batch, in the calling thread: what next() does with threads = 0. Pure but for `waited`.
Result<Batch> load_batch(const Loader::Setup& setup, LoaderPosition at);

}  // namespace tern
