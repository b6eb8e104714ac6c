// From a sample's stored bytes to the pixels that a batch needs.
#pragma once

#include <memory>
#include <span>

#include "image/image.h"

namespace tern {

// Owned by one thread; keeps the buffers of the codecs between images, but none of more than
// kKeptBytesMax: one huge image among small ones does not cost its memory for ever.
class ImageDecoder {
 public:
  static constexpr size_t kKeptBytesMax = size_t{64} << 20;

  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  // Writes what `view` asks for to `out` (CHW, info.channels channels): decodes only the rows and
  // columns that the part needs, turns them upright, resizes. `info` is what probe_image() said
  // when the sample was imported; bytes that say something else now are `corrupt`.
  // REQUIRES: the part lies within info.size; out.size() == channels * out_width * out_height.
  Status decode(BytesView stored, const ImageInfo& info, const View& view, std::span<uint8_t> out);

  // The whole image at its own size. REQUIRES: out.size() == channels * info.size.pixels().
  Status decode_whole(BytesView stored, const ImageInfo& info, std::span<uint8_t> out);

  // The whole image, upright, as rows of RGB (grey is repeated): for writing other
  // representations and for people.
  Status decode_rgb(BytesView stored, const ImageInfo& info, Pixels& pixels);

  // What is kept for the next image.
  size_t kept_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
