// What packing makes of a sample's bytes, declared by name and recorded with the data set.
#pragma once

#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/result.h"
#include "image/decoder.h"
#include "image/image.h"

namespace tern {

struct Representation {
  enum class Kind {
    orig,        // the bytes as they are
    base,        // progressive JPEG made baseline, losslessly; everything else as it is
    short_side,  // resized so that the short side is `side`, JPEG of `quality`, 4:2:0; never
                 // enlarged: smaller images are only coded again
    raw,         // decoded pixels at their own size, CHW
  };
  Kind kind = Kind::orig;
  int side = 0;
  int quality = 0;

  std::string to_string() const;  // "short:256:q90"
  bool operator==(const Representation&) const = default;
};

// "orig", "base", "short:SIDE:qQUALITY" (q90 if left out), "raw". `invalid` lists them.
Result<Representation> parse_representation(std::string_view text);

// The sample in that representation. A pure function, the same on every machine; `info` is changed
// to what it describes now. Raw input stays raw, whatever is asked. `corrupt`: the sample is bad.
Result<Bytes> represent(const Representation& representation, Bytes bytes, ImageInfo& info,
                        ImageDecoder& decoder);

}  // namespace tern
