// The bytes of TensorBoard's event files. Format: docs/format_tensorboard.md.
//
// Written by hand and not by the protobuf library: it is a dozen fields of three messages, which
// TensorFlow promised in 2015 never to change, and the library would be our largest dependency.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace tern {

// One point of one curve. Tags are paths: "train/loss".
struct Scalar {
  std::string tag;
  double value = 0;  // the file has it as a float
};

// A record of the file: length, checksum, one event, checksum. Pure functions.
//
// What every file begins with.
Bytes version_record(int64_t unix_ms);
// Tells TensorBoard that the run goes on from here: it forgets what it has of `step` and later.
Bytes restart_record(int64_t unix_ms, int64_t step);
// Points of one step.
Bytes scalars_record(int64_t unix_ms, int64_t step, const std::vector<Scalar>& scalars);

}  // namespace tern
