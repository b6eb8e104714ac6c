// Pictures in files, as a network sees them: for prediction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "dataset/dataset.h"
#include "image/decoder.h"
#include "loader/options.h"

namespace tern {

// The files themselves, and of folders the .jpg, .jpeg and .png files below them, by name; hidden
// ones are left out and links to folders not followed. A folder that cannot be read is an error;
// whether a file can is not looked at.
Result<std::vector<std::filesystem::path>> list_image_files(const std::vector<std::string>& names);

// What the network sees: `shape`, or with image.rectangular that of the image's own aspect ratio.
// Where image.size is 0 the network takes `shape` as it is, and an image of another size is resized
// to fill it, its middle kept.
struct ImageView {
  ImageOptions options;
  ImageShape shape;
};

struct ReadImage {
  ImageShape shape;
  std::vector<uint8_t> pixels;  // CHW
};

// Reads and decodes one file by the rules of evaluation. not_found, permission_denied, or `corrupt`
// for what is no JPEG or PNG or is damaged; the message names the file. Blocks for reading.
Result<ReadImage> read_image_file(const std::filesystem::path& path, const ImageView& view,
                                  ImageDecoder& decoder);

}  // namespace tern
