// PNG by libpng. Palette, greyscale, alpha and 16 bits all become RGB of 8 bits: 16 bits are
// scaled down by dividing by 257, rounded; alpha is dropped as Pillow's convert("RGB") drops it.
#pragma once

#include "image/image.h"

namespace tern {

// See probe_image(). The orientation is that of the eXIf chunk, before or behind the pixels; what
// is damaged there is ignored, as in a JPEG.
Result<ImageInfo> probe_png(BytesView encoded);

// The whole image as stored (EXIF's orientation is the caller's). `corrupt` on a bad checksum or an
// early end, `exhausted` where the machine has no memory. Takes memory only after the header's size
// was checked.
Status read_png(BytesView encoded, Pixels& pixels);

// For people to look at. REQUIRES: at least one pixel.
Result<Bytes> write_png(const Pixels& pixels);

}  // namespace tern
