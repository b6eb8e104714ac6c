#include "import/idx_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "dataset/read_file.h"
#include "import/files_version.h"
#include "import/sample_names.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kUnsignedBytes = 0x0800;
constexpr int64_t kHeaderBytesMax = 4 + 4 * 4;

uint32_t read_big_endian(BytesView bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

// The file's name in the folder, with .gz if it is; nothing if there is neither.
std::optional<std::string> find_file(const fs::path& folder, const std::string& stem) {
  for (const std::string& name : {stem, stem + ".gz"}) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return name;
  }
  return {};
}

Bytes read_beginning(const fs::path& file) {
  Bytes begin(kHeaderBytesMax, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), kHeaderBytesMax);
  begin.resize(static_cast<size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return begin;
}

struct SplitFiles {
  Split split = Split::train;
  std::string images;
  std::string labels;
  int64_t bytes = 0;  // of both
};

// Image files give one shape of sample.
Result<ImageInfo> image_info(const IdxShape& shape) {
  const std::vector<int64_t>& sizes = shape.sizes;
  if (sizes.size() != 3 && sizes.size() != 4) {
    return fail(Code::corrupt, "this is no file of images; were images and labels exchanged?");
  }
  const int64_t channels = sizes.size() == 3 ? 1 : sizes[1];
  const int64_t height = sizes[sizes.size() - 2];
  const int64_t width = sizes.back();
  const bool fits = height > 0 && width > 0 && height <= kImageSideMax && width <= kImageSideMax &&
                    height * width <= kImagePixelsMax;
  if (!fits || (channels != 1 && channels != 3)) {
    return fail(Code::corrupt,
                fmt::format("says its images are {}x{}x{}; 1 or 3 channels are understood",
                            channels, height, width));
  }
  return ImageInfo{.format = ImageFormat::raw,
                   .size = {static_cast<int32_t>(width), static_cast<int32_t>(height)},
                   .channels = static_cast<uint8_t>(channels)};
}

class IdxSource final : public Source {
 public:
  IdxSource(fs::path folder, std::vector<SplitFiles> splits, const SourceOptions& options)
      : folder_(std::move(folder)), splits_(std::move(splits)), options_(options) {}

  std::string describe() const override {
    return fmt::format(
        "IDX files in {}: {}{}", folder_.string(), splits_.front().images,
        splits_.size() > 1 ? " and " + splits_.back().images : ", no t10k files for test");
  }
  std::string root() const override { return folder_.string(); }
  bool has_test_split() const override { return splits_.size() > 1; }
  std::string version() const override {
    FilesVersion version;
    for (const SplitFiles& files : splits_) {
      version.add(folder_ / files.images);
      version.add(folder_ / files.labels);
    }
    return version.finish();
  }
  int64_t total_bytes() const override {
    int64_t bytes = 0;
    for (const SplitFiles& files : splits_) bytes += files.bytes;
    return bytes;
  }
  int64_t bytes_done() const override { return bytes_done_; }
  int64_t ignored() const override { return 0; }

  Status scan(const std::function<Status(SourceSample)>& visit) override {
    bytes_done_ = 0;
    for (const SplitFiles& files : splits_) {
      RETURN_IF_ERROR(scan_split(files, visit));
      bytes_done_ += files.bytes;
    }
    return {};
  }

 private:
  Result<Bytes> read_labels(const std::string& name) const;
  Status scan_split(const SplitFiles& files,
                    const std::function<Status(SourceSample)>& visit) const;

  const fs::path folder_;
  const std::vector<SplitFiles> splits_;
  const SourceOptions options_;
  int64_t bytes_done_ = 0;
};

Result<Bytes> IdxSource::read_labels(const std::string& name) const {
  const std::string path = (folder_ / name).string();
  ASSIGN_OR_RETURN(Bytes bytes, read_data_file(path, options_.member_bytes_max));
  const Result<IdxShape> shape = parse_idx(bytes, static_cast<int64_t>(bytes.size()));
  if (!shape) return shape.error().at(path);
  if (shape->sizes.size() != 1) {
    return fail(Code::corrupt,
                path + ": this is no file of labels; were images and labels exchanged?");
  }
  bytes.erase(0, static_cast<size_t>(shape->header_bytes));
  return bytes;
}

Status IdxSource::scan_split(const SplitFiles& files,
                             const std::function<Status(SourceSample)>& visit) const {
  ASSIGN_OR_RETURN(const Bytes labels, read_labels(files.labels));
  const fs::path path = folder_ / files.images;
  // Packed images are unpacked whole; plain ones are only pointed at.
  Bytes images;
  Bytes begin = read_beginning(path);
  const bool is_packed = begin.starts_with("\x1f\x8b");
  std::error_code ignored;
  auto file_bytes = static_cast<int64_t>(fs::file_size(path, ignored));
  if (is_packed) {
    ASSIGN_OR_RETURN(images, read_data_file(path.string(), options_.member_bytes_max));
    file_bytes = static_cast<int64_t>(images.size());
    begin = images.substr(0, kHeaderBytesMax);
  }
  const Result<IdxShape> shape = parse_idx(begin, file_bytes);
  if (!shape) return shape.error().at(path.string());
  const Result<ImageInfo> info = image_info(*shape);
  if (!info) return info.error().at(path.string());
  const int64_t count = shape->sizes.front();
  if (count != static_cast<int64_t>(labels.size())) {
    return fail(Code::corrupt, fmt::format("{} has {} images, but {} has {} labels; use two files "
                                           "that belong together",
                                           path.string(), count, files.labels, labels.size()));
  }
  const int64_t image_bytes = int64_t{info->channels} * info->size.pixels();
  const bool has_test = splits_.size() > 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = shape->header_bytes + i * image_bytes;
    SourceSample sample{
        .name = fmt::format("{:06}", i),
        .class_name = std::to_string(static_cast<uint8_t>(labels[static_cast<size_t>(i)])),
        .split = files.split,
        .raw = *info};
    if (!has_test) sample.split = split_by_name(sample.name, options_.test_share);
    if (is_packed) {
      sample.bytes = images.substr(static_cast<size_t>(at), static_cast<size_t>(image_bytes));
    } else {
      sample.range = FileRange{files.images, at, image_bytes};
    }
    RETURN_IF_ERROR(visit(std::move(sample)));
  }
  return {};
}

}  // namespace

Result<IdxShape> parse_idx(BytesView begin, int64_t file_bytes) {
  if (begin.size() < 4) return fail(Code::corrupt, "is too short for an IDX file; fetch it again");
  const uint32_t magic = read_big_endian(begin, 0);
  const size_t dimensions = magic & 0xff;
  if ((magic & 0xffffff00U) != kUnsignedBytes || dimensions < 1 || dimensions > 4) {
    return fail(Code::corrupt,
                fmt::format("begins with 0x{:08x}: this is no IDX file of unsigned bytes; fetch it "
                            "again",
                            magic));
  }
  IdxShape shape{.header_bytes = static_cast<int64_t>(4 + 4 * dimensions)};
  if (begin.size() < 4 + 4 * dimensions) {
    return fail(Code::corrupt, "is truncated inside its header; fetch it again");
  }
  int64_t claimed = 1;
  bool overflows = false;
  for (size_t i = 0; i < dimensions; ++i) {
    shape.sizes.push_back(read_big_endian(begin, 4 + 4 * i));
    overflows |= __builtin_mul_overflow(claimed, shape.sizes.back(), &claimed);
  }
  if (overflows || claimed != file_bytes - shape.header_bytes) {
    return fail(Code::corrupt,
                fmt::format("its header says {} bytes of data, it has {}; fetch it again",
                            overflows ? "more than 2^63" : fmt::to_string(claimed),
                            file_bytes - shape.header_bytes));
  }
  return shape;
}

bool looks_like_idx(const fs::path& folder) {
  return find_file(folder, "train-images-idx3-ubyte").has_value();
}

Result<std::unique_ptr<Source>> open_idx_source(const fs::path& folder,
                                                const SourceOptions& options) {
  std::vector<SplitFiles> splits;
  for (const Split split : {Split::train, Split::test}) {
    const std::string prefix = split == Split::train ? "train" : "t10k";
    const auto images = find_file(folder, prefix + "-images-idx3-ubyte");
    const auto labels = find_file(folder, prefix + "-labels-idx1-ubyte");
    if (!images && !labels && split == Split::test) continue;
    if (!images || !labels) {
      return fail(
          Code::invalid,
          fmt::format("{} lacks {}-{} (plain or .gz); put it beside the other IDX files",
                      folder.string(), prefix, images ? "labels-idx1-ubyte" : "images-idx3-ubyte"));
    }
    std::error_code ignored;
    const auto bytes = static_cast<int64_t>(fs::file_size(folder / *images, ignored) +
                                            fs::file_size(folder / *labels, ignored));
    splits.push_back({split, *images, *labels, bytes});
  }
  return std::make_unique<IdxSource>(folder, std::move(splits), options);
}

}  // namespace tern
