// How one batch comes to be: its buffers, its samples part by part, what bad ones leave behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/plan.h"
#include "image/decoder.h"
#include "loader/data_wait.h"
#include "loader/loader.h"

namespace tern {

// The batch with its buffers, not yet filled; `spare` is one whose memory may be used again.
// `exhausted` if there is no memory.
Result<Batch> allocate_batch(const Loader::Setup& setup, LoaderPosition at, Batch spare = {});

// What a filler is at, for other threads to look at while it is slow.
struct FillerPlace {
  std::atomic<int64_t> epoch = -1;
  std::atomic<int64_t> batch = -1;   // -1: nothing
  std::atomic<int64_t> sample = -1;  // the first of several that are read at once
  std::atomic<int> attempt = 1;      // to read it
};

// Fills parts of batches; keeps a decoder and buffers between samples. Each thread owns one.
// Several may fill different parts of one batch at the same time: what a slot gets depends only on
// the setup, the epoch and the position.
class BatchFiller {
 public:
  // `setup` outlives it.
  explicit BatchFiller(const Loader::Setup& setup);

  // Fills the slots of `chunk`, but those of bad samples that are skipped. Returns the bad ones, in
  // order, which belong into Batch::bad. Gives up between samples when `stop` fires. Blocks for
  // reading, also again (fetch_retry.h). Errors name the sample.
  Result<std::vector<BadRead>> fill(Batch& batch, PositionRange chunk, StageMeter& meter,
                                    std::stop_token stop);
  const FillerPlace& place() const { return place_; }

 private:
  // `ahead`: the sample's bytes, if they have been read; else they are.
  Status fill_slot(Batch& batch, int64_t position, int64_t sample, const Bytes* ahead,
                   StageMeter& meter, const std::stop_token& stop);
  Result<BadRead> deal_with(Batch& batch, int64_t position, int64_t sample, const Error& error,
                            StageMeter& meter, const std::stop_token& stop);
  View view_of(const Batch& batch, int64_t position, int64_t sample) const;

  const Loader::Setup& setup_;
  FillerPlace place_;
  const AugmentOptions augment_;  // nothing in an evaluation
  const bool has_draws_;          // a crop or a flip is drawn
  const bool mirrors_in_view_;    // the flip costs nothing there
  ImageDecoder decoder_;
  std::vector<int64_t> samples_;
  Bytes stored_;
  std::vector<uint8_t> unchanged_;  // the pixels before crop and flip
};

// To be called when every slot is filled: sorts Batch::bad and closes the gaps of skipped samples.
// That may leave a batch of nothing but Batch::bad.
Batch finish_batch(Batch batch);

}  // namespace tern
