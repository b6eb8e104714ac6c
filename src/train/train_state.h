// What a checkpoint says besides its tensors. Written as the `state` of a sequence record.
// Format: docs/format_checkpoint.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "storage/safetensors.h"

namespace tern {

struct BestSoFar {
  double top1 = -1;  // -1: nothing evaluated yet
  int64_t step = 0;
};

// Sums over the steps of the epoch that is under way, so that an epoch's mean survives a resume.
struct EpochSums {
  double loss = 0;  // of samples
  int64_t correct = 0;
  int64_t samples = 0;
};

struct TrainState {
  int64_t step = 0;           // steps done; position in epoch and schedule follow from it
  int64_t epochs_closed = 0;  // epochs whose evaluation and summary are done
  int64_t samples = 0;        // trained on so far
  double train_seconds = 0;   // over all processes; decides nothing but train.time_limit
  EpochSums epoch;
  BestSoFar best;
  double rate_factor = 1;   // halved by every roll-back
  int64_t roll_backs = 0;   // so far
  double loss_mean = -1;    // of the last steps, moving; -1: none yet
  bool has_target = false;  // train.target_* has been reached
};

// The whole of a checkpoint's text: the state, and what it was made with and from.
struct CheckpointText {
  TrainState state;
  std::string config_toml;  // the resolved run file
  std::string version;      // tern's
  std::string dataset_id;
  std::string instruction_set;
  std::string fingerprint;  // of the machine's arithmetic; empty: written before there was one
  int64_t threads = 0;
  int64_t steps_per_epoch = 0;  // in the phase of the step
  int64_t epoch = 0;            // of the next step, for people who look
  int64_t batch = 0;
};

// `blobs` are the safetensors files that hold the tensors; the text maps each tensor to the pieces
// that make it up, in order.
Result<std::string> format_state(const CheckpointText& text, const std::vector<Bytes>& blobs);
// `corrupt` names what is missing or of the wrong type.
Result<CheckpointText> parse_state(const std::string& json);

// The tensors of a checkpoint, put together from the pieces in its blobs. The views point into the
// blobs and into `joined`, which holds those that came in several pieces.
Result<Safetensors> gather_tensors(const std::string& json, const std::vector<Bytes>& blobs,
                                   std::vector<Bytes>& joined);

}  // namespace tern
