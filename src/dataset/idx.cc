#include "dataset/idx.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "dataset/in_memory_dataset.h"
#include "dataset/read_file.h"

namespace tern {
namespace {

constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kColourImagesMagic = 0x00000804;
constexpr int64_t kChannelsMax = 255;  // what ImageInfo holds

struct IdxFile {
  std::string path;
  Bytes bytes;
};

// A header that has been checked against the size of its file.
struct IdxHeader {
  std::vector<int64_t> sizes;
  size_t bytes = 0;
};

enum class Kind { images, labels };

Result<IdxFile> read_idx_file(const DataOptions& options, const std::string& stem) {
  const std::string plain = (std::filesystem::path(options.path) / stem).string();
  for (const std::string& path : {plain, plain + ".gz"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    ASSIGN_OR_RETURN(Bytes bytes, read_data_file(path, options.file_bytes_max));
    return IdxFile{path, std::move(bytes)};
  }
  return fail(Code::not_found,
              fmt::format("there is neither {} nor {}.gz; set data.path to the folder that holds "
                          "them (Debian's package dataset-fashion-mnist puts them in "
                          "/usr/share/datasets/fashion-mnist)",
                          plain, plain));
}

Error corrupt_file(const IdxFile& file, const std::string& what) {
  return fail(Code::corrupt, fmt::format("{}: {}", file.path, what));
}

uint32_t read_big_endian(BytesView bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

bool is_magic_of(Kind kind, uint32_t magic) {
  if (kind == Kind::labels) return magic == kLabelsMagic;
  return magic == kImagesMagic || magic == kColourImagesMagic;
}

std::string wrong_magic(Kind kind, uint32_t magic) {
  std::string hint = "this is no IDX file of unsigned bytes; fetch it again";
  if (kind == Kind::images && magic == kLabelsMagic) {
    hint = "this is a label file; were images and labels exchanged?";
  } else if (kind == Kind::labels && is_magic_of(Kind::images, magic)) {
    hint = "this is an image file; were images and labels exchanged?";
  } else if (magic >> 16 == 0x1f8b) {
    hint = "this is a gzip file inside a gzip file; unpack it once with gunzip";
  }
  return fmt::format("begins with 0x{:08x}, not with {}: {}", magic,
                     kind == Kind::labels ? "0x00000801 (labels)" : "0x00000803 (images)", hint);
}

// Nothing is allocated by what a header claims: its sizes must multiply to exactly what follows it.
Result<IdxHeader> read_header(const IdxFile& file, Kind kind) {
  const size_t held = file.bytes.size();
  if (held < 4) return corrupt_file(file, fmt::format("has only {} bytes; fetch it again", held));
  const uint32_t magic = read_big_endian(file.bytes, 0);
  if (!is_magic_of(kind, magic)) return corrupt_file(file, wrong_magic(kind, magic));

  IdxHeader header;
  const size_t dimensions = magic & 0xff;
  header.bytes = 4 + 4 * dimensions;
  if (held < header.bytes) {
    return corrupt_file(file, fmt::format("is truncated inside its header, {} bytes of {}; fetch "
                                          "it again",
                                          held, header.bytes));
  }
  uint64_t claimed = 1;
  bool overflows = false;
  for (size_t i = 0; i < dimensions; ++i) {
    const uint32_t size = read_big_endian(file.bytes, 4 + 4 * i);
    header.sizes.push_back(size);
    overflows |= __builtin_mul_overflow(claimed, uint64_t{size}, &claimed);
  }
  const uint64_t follows = held - header.bytes;
  if (overflows || claimed > follows) {
    return corrupt_file(
        file, fmt::format("is truncated: its header says {} bytes of data, it has "
                          "{}; fetch it again",
                          overflows ? "more than 2^64" : fmt::to_string(claimed), follows));
  }
  if (claimed < follows) {
    return corrupt_file(file, fmt::format("has {} bytes more than its header says ({}); fetch it "
                                          "again",
                                          follows - claimed, claimed));
  }
  return header;
}

Result<ImageShape> image_shape(const IdxFile& file, const IdxHeader& header) {
  const std::vector<int64_t>& sizes = header.sizes;
  const ImageShape shape = sizes.size() == 3 ? ImageShape{1, sizes[1], sizes[2]}
                                             : ImageShape{sizes[1], sizes[2], sizes[3]};
  if (sizes[0] == 0) {
    return fail(
        Code::invalid,
        fmt::format("{}: the data set is empty; set data.path to one with samples", file.path));
  }
  if (shape.channels == 0 || shape.height == 0 || shape.width == 0) {
    return corrupt_file(file, fmt::format("says its images are {}x{}x{}; fetch it again",
                                          shape.channels, shape.height, shape.width));
  }
  if (shape.channels > kChannelsMax || shape.height > kImageSideMax ||
      shape.width > kImageSideMax) {
    return fail(Code::invalid,
                fmt::format("{}: has images of {} channels and {}x{} pixels, but at most {} and "
                            "{}x{} can be read; use smaller ones",
                            file.path, shape.channels, shape.width, shape.height, kChannelsMax,
                            kImageSideMax, kImageSideMax));
  }
  return shape;
}

Result<std::vector<int64_t>> read_labels(const IdxFile& file, const IdxHeader& header,
                                         int64_t classes) {
  std::vector<int64_t> labels;
  labels.reserve(file.bytes.size() - header.bytes);
  for (char byte : BytesView(file.bytes).substr(header.bytes)) {
    const auto label = static_cast<uint8_t>(byte);
    if (label >= classes) {
      return fail(Code::invalid,
                  fmt::format("{}: sample {} has the label {}, but there are {} classes (0 to {}); "
                              "set data.classes, or fetch the file again",
                              file.path, labels.size(), label, classes, classes - 1));
    }
    labels.push_back(label);
  }
  return labels;
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_idx(const DataOptions& options, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  ASSIGN_OR_RETURN(IdxFile images, read_idx_file(options, prefix + "-images-idx3-ubyte"));
  ASSIGN_OR_RETURN(const IdxHeader images_header, read_header(images, Kind::images));
  ASSIGN_OR_RETURN(const ImageShape shape, image_shape(images, images_header));

  ASSIGN_OR_RETURN(const IdxFile labels, read_idx_file(options, prefix + "-labels-idx1-ubyte"));
  ASSIGN_OR_RETURN(const IdxHeader labels_header, read_header(labels, Kind::labels));
  const int64_t images_count = images_header.sizes[0];
  const int64_t labels_count = labels_header.sizes[0];
  if (images_count != labels_count) {
    return fail(Code::invalid,
                fmt::format("{} has {} images, but {} has {} labels; use two files that belong "
                            "together",
                            images.path, images_count, labels.path, labels_count));
  }

  Samples samples{.shape = shape, .classes = options.classes};
  ASSIGN_OR_RETURN(samples.labels, read_labels(labels, labels_header, options.classes));
  samples.pixels = std::move(images.bytes);
  samples.pixels.erase(0, images_header.bytes);
  return std::make_unique<InMemoryDataset>(
      fmt::format("idx:{}/{}", options.path, split_name(split)), split, std::move(samples));
}

}  // namespace tern
