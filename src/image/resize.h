// Resizing with a triangle filter that widens when it shrinks (antialiased): Pillow's BILINEAR and
// torchvision's antialias=True. Whole-number arithmetic, so that every machine gives the same bits.
#pragma once

#include <memory>
#include <span>

#include "image/image.h"

namespace tern {

// Keeps its tables of weights and its scratch rows; one thread at a time owns it. Nothing fails.
class Resizer {
 public:
  Resizer();
  ~Resizer();
  Resizer(const Resizer&) = delete;
  Resizer& operator=(const Resizer&) = delete;

  // Writes the view of `pixels` to `out`, channel by channel (CHW). view.left and the others are in
  // pixels of `pixels`; may_reduce means nothing here. The filter sees the pixels that the part
  // touches and none beyond. A part that has the result's size and lies on whole pixels is copied.
  // REQUIRES: the part lies within the image and is not empty; out.size() == 3 * out_width *
  // out_height.
  void resize(const Pixels& pixels, const View& view, std::span<uint8_t> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
