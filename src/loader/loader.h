// The loader: turns positions of the plan into batches, ahead of need. Start here for feeding.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "dataset/dataset.h"
#include "dataset/plan.h"
#include "loader/augment.h"
#include "loader/data_wait.h"
#include "loader/options.h"

namespace tern {

// A sample that could not be read or decoded, and what was done about it.
struct BadRead {
  int64_t sample = 0;
  int64_t position = 0;
  std::string where;  // name, file and offset
  std::string cause;
  int64_t replaced_by = -1;  // the sample that stands in; -1: skipped

  bool operator==(const BadRead&) const = default;
};

enum class OnBadSample { stop, skip, replace };

// One batch (or a rank's share of it) as plain host buffers. Pixels stay uint8 until the device.
struct Batch {
  int64_t epoch = 0;
  int64_t index = 0;  // of the batch in its epoch
  PositionRange positions;
  ImageShape shape;
  std::vector<uint8_t> images;  // samples() images, CHW
  std::vector<int64_t> labels;
  std::vector<BadRead> bad;  // in the order of positions; skipped ones are missing from the others
  std::vector<AugmentDraw> draws;  // what is still to be done to each image; empty: nothing
  DataWait waited;                 // how long next() waited; says nothing about the content

  // Fewer than positions.size() where bad ones were skipped; none if all of them were bad, or the
  // share of this rank is empty.
  int64_t samples() const { return static_cast<int64_t>(labels.size()); }
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
// until the batch is ready. The clock only measures that, and the
// pauses before a read is tried again (fetch_retry.h). Memory is bounded by batches_ahead +
// threads batches, and two that were given back.
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
    LoaderPosition start;  // REQUIRES: a batch of an epoch, or {epochs, 0}
    int64_t epochs = 1;    // next() after the last batch of epoch `epochs - 1` is a mistake of ours
    // Every epoch ends after so many batches of the plan's, also one that is begun in the middle;
    // 0, or more than the plan has: all.
    int64_t batches_per_epoch = 0;
    // Outlives the loader. Null: nothing is measured, Batch::waited is 0, and a read that fails is
    // not tried again after a pause.
    Clock* clock = nullptr;
    bool leave_augmentation = false;  // draw it (Batch::draws), but leave the images as read
    ImageOptions image;               // which part of an image, and how large
    bool is_evaluation = false;       // views are those of evaluation, nothing is drawn
    OnBadSample on_bad = OnBadSample::stop;
  };

  explicit Loader(const Setup& setup);
  ~Loader();  // stops the threads; never blocks for longer than one sample

  // The batch at position(), then moves on. Batch::waited is this call's wait: zero if the batch
  // was ready; with threads = 0, the time that the work itself took. An error names the sample; it
  // is given once, in order, and the loader is finished after it. If `stop` fires while it waits:
  // cancelled, nothing moves, and next() may be called again. REQUIRES: position() is not {epochs,
  // 0}; no error was given.
  Result<Batch> next(std::stop_token stop = {});
  // Gives back a batch that is no longer needed, so that its memory is filled again rather than
  // taken anew and cleared by the system, page by page. Nobody has to; the owner's thread may.
  void recycle(Batch batch);
  LoaderPosition position() const;
  // What the batch that next() waits for waits for itself: "shard 3 at 4711, attempt 2", with what
  // the data set calls the place. Of any thread, while the loader lives.
  std::string waits_for() const;

 private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

// Makes one batch, in the calling thread: what next() does with threads = 0. Pure but for `waited`.
Result<Batch> load_batch(const Loader::Setup& setup, LoaderPosition at);

}  // namespace tern
