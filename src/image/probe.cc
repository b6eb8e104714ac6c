#include "image/jpeg.h"
#include "image/png.h"

namespace tern {

Result<ImageInfo> probe_image(BytesView encoded) {
  if (encoded.starts_with("\xFF\xD8")) return probe_jpeg(encoded);
  if (encoded.starts_with("\x89PNG")) return probe_png(encoded);
  if (encoded.empty()) return fail(Code::corrupt, "an empty file; fetch it again or leave it out");
  return fail(Code::corrupt,
              "neither JPEG nor PNG by its first bytes; convert it to one of them or leave it out");
}

}  // namespace tern
