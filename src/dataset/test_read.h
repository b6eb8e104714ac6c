// For tests: a sample's pixels in one call.
#pragma once

#include <cstdint>
#include <span>

#include "dataset/dataset.h"

namespace tern {

// The whole sample at its own size. REQUIRES: image.size() == dataset.shape().bytes().
inline Status read_whole(const Dataset& dataset, int64_t sample, std::span<uint8_t> image) {
  Bytes buffer;
  ImageDecoder decoder;
  ASSIGN_OR_RETURN(const BytesView stored, dataset.fetch(sample, buffer));
  return dataset.decode(sample, stored, nullptr, decoder, image);
}

}  // namespace tern
