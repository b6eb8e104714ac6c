#include "train/image_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <new>

#include "cloud/open_store.h"
#include "dataset/read_file.h"
#include "loader/view.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFileBytesMax = int64_t{1} << 30;
constexpr size_t kColours = 3;

bool has_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

Status list_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with('.')) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code gone;
    if (entry->is_regular_file(gone) && has_image_name(entry->path())) {
      found.push_back(entry->path());
    }
  }
  if (error) {
    return fail(Code::unavailable,
                fmt::format("cannot list {}: {}; make it readable, or name files in it",
                            folder.string(), error.message()));
  }
  if (found.empty()) {
    return fail(Code::not_found, fmt::format("no .jpg, .jpeg or .png file is in {}; name the files "
                                             "that are meant",
                                             folder.string()));
  }
  std::ranges::sort(found);
  files.insert(files.end(), found.begin(), found.end());
  return {};
}

// The middle of the image that has the aspect ratio of `shape`.
View filling_view(const ImageOptions& options, ImageSize image, ImageShape shape) {
  const double scale =
      std::min(static_cast<double>(image.width) / static_cast<double>(shape.width),
               static_cast<double>(image.height) / static_cast<double>(shape.height));
  View view{.width = std::min<double>(image.width, scale * static_cast<double>(shape.width)),
            .height = std::min<double>(image.height, scale * static_cast<double>(shape.height)),
            .out_width = static_cast<int32_t>(shape.width),
            .out_height = static_cast<int32_t>(shape.height),
            .may_reduce = options.reduce};
  view.left = (image.width - view.width) / 2;
  view.top = (image.height - view.height) / 2;
  return view;
}

View view_of(const ImageView& wanted, ImageSize image) {
  if (wanted.options.size == 0) return filling_view(wanted.options, image, wanted.shape);
  if (!wanted.options.rectangular) return centre_view(wanted.options, image);
  return rectangular_view(wanted.options, image, static_cast<double>(image.width) / image.height);
}

// Luma as in ITU-R 601 with sixteen bits, which is also what Pillow's convert("L") computes.
std::vector<uint8_t> to_grey(const std::vector<uint8_t>& rgb) {
  const size_t pixels = rgb.size() / kColours;
  std::vector<uint8_t> grey(pixels);
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t sum = 19595U * rgb[i] + 38470U * rgb[pixels + i] + 7471U * rgb[2 * pixels + i];
    grey[i] = static_cast<uint8_t>((sum + 0x8000U) >> 16U);
  }
  return grey;
}

Result<ReadImage> decode_file(const fs::path& path, const ImageView& view, ImageDecoder& decoder) {
  std::error_code unknown;
  if (!fs::exists(path, unknown) && !unknown) {
    return fail(Code::not_found, fmt::format("there is no file {}; check its name", path.string()));
  }
  ASSIGN_OR_RETURN(const Bytes bytes, read_data_file(path.string(), kFileBytesMax));
  ASSIGN_OR_RETURN(const ImageInfo info, probe_image(bytes).at(path.string()));
  const View part = view_of(view, info.size);
  ReadImage image{.shape = {view.shape.channels, part.out_height, part.out_width}};
  image.pixels.resize(kColours * static_cast<size_t>(part.out_width) *
                      static_cast<size_t>(part.out_height));
  RETURN_IF_ERROR(decoder.decode(bytes, info, part, image.pixels).at(path.string()));
  if (view.shape.channels == 1) image.pixels = to_grey(image.pixels);
  return image;
}

}  // namespace

Result<std::vector<fs::path>> list_image_files(const std::vector<std::string>& names) {
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    if (is_cloud_address(name)) {
      return fail(Code::invalid, fmt::format("{} is in a bucket, and pictures are read from this "
                                             "machine; fetch them: `tern store cp --recursive {} "
                                             "DIR`",
                                             name, name));
    }
    std::error_code error;
    if (fs::is_directory(name, error)) {
      RETURN_IF_ERROR(list_folder(name, files));
    } else {
      files.emplace_back(name);
    }
  }
  return files;
}

Result<ReadImage> read_image_file(const fs::path& path, const ImageView& view,
                                  ImageDecoder& decoder) try {
  return decode_file(path, view, decoder);
} catch (const std::bad_alloc&) {
  return fail(Code::exhausted, fmt::format("no memory to decode {}", path.string()));
}

}  // namespace tern
