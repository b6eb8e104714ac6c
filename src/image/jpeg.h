// JPEG by libjpeg-turbo: headers, the part of an image that is needed, and the ways to write one.
//
// Greyscale, YCbCr, RGB, CMYK and YCCK (with or without Adobe's inversion) all become RGB.
#pragma once

#include <memory>

#include "image/image.h"

namespace tern {

// See probe_image(). EXIF's orientation is read from the APP1 segment; what is damaged there is
// ignored, as everybody does.
Result<ImageInfo> probe_jpeg(BytesView encoded);

// Decodes. Keeps libjpeg's tables and buffers between images; one thread at a time owns it.
class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // The pixels of `box`, as stored (EXIF's orientation is the caller's). Rows and columns outside
  // are decoded only as far as the format makes it necessary, and the pixels are those of decoding
  // the whole image and cutting, to the last bit, whatever its subsampling. With `reduce` 2, 4 or 8
  // the image is decoded at that fraction of its size (each side rounded up) and `box` is in
  // pixels of that. `corrupt` if libjpeg cannot go on, or the data ends early or has bad codes
  // within what is decoded; harmless oddities (bytes between markers) pass.
  // REQUIRES: 1 <= box.width, box.height, and the box lies within the (reduced) image, whose size
  // as stored the caller has from probe_jpeg().
  Status read(BytesView encoded, Box box, int reduce, Pixels& pixels);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same coefficients in baseline coding with optimised Huffman tables; markers (EXIF, ICC) in
// front of the first scan are kept. Any decoder gives the same pixels. Not smaller memory: it takes
// two bytes a coefficient.
// An image whose coefficients were never sent in full comes back as it is: decoders smooth such
// images, but only while they are progressive, and look at no table of a component without a scan.
Result<Bytes> jpeg_to_baseline(BytesView encoded);

// REQUIRES: quality in 1..100, at least one pixel. 4:2:0, baseline, optimised Huffman tables.
Result<Bytes> encode_jpeg(const Pixels& pixels, int quality);

}  // namespace tern
