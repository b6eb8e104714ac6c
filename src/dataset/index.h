// The index of a data set: one file, dataset.tern, that says of every sample what it is and where
// its bytes are. docs/format_index.md specifies the bytes.
//
// It is written once and never changed. Readers map it, so that all processes of a machine share
// one copy, and opening takes milliseconds for a million samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/dataset.h"
#include "image/image.h"

namespace tern {

inline constexpr char kIndexFile[] = "dataset.tern";
// The longest name of a sample or path of a file: what two bytes count.
inline constexpr size_t kSampleNameBytesMax = 65'535;

// One sample, as stored: 40 bytes, little-endian.
struct IndexEntry {
  uint64_t offset = 0;  // of its bytes in its file
  uint64_t name = 0;    // where its name begins in the names
  uint32_t length = 0;
  uint32_t crc32c = 0;  // of the stored bytes
  uint32_t file = 0;
  uint32_t label = 0;
  uint16_t width = 0;  // upright
  uint16_t height = 0;
  uint8_t format = 0;  // ImageFormat
  uint8_t channels = 0;
  uint8_t orientation = 1;
  uint8_t flags = 0;  // bit 0: progressive

  ImageInfo info() const;
};
static_assert(sizeof(IndexEntry) == 40);

struct IndexFile {
  std::string path;  // relative to the data set's folder, or to About::root; '/'-separated
  int64_t size_bytes = 0;
};

// A sample that the import found no use for.
struct BadSample {
  std::string name;
  std::string cause;

  bool operator==(const BadSample&) const = default;
};

// What people and programs want to know about a data set; JSON inside the index.
struct About {
  std::string source;          // what was imported, in words: "ImageNet-2012 in /data/imagenet"
  std::string representation;  // "orig", "base", "short:256:q90", "raw"
  // Where the files are. Packed: empty, they are in the data set's folder. Indexed in place: an
  // absolute folder; or, if it lies in the data set's folder and so moves with it, relative to
  // that.
  std::string root;
  std::vector<std::string> classes;       // by label: "n01440764", "airplane", "7"
  std::vector<std::string> class_titles;  // by label: "tench, Tinca tinca"; may be empty
  std::vector<double> mean;               // of the train split's pixels, 0 to 1, by channel
  std::vector<double> stddev;
  int64_t pixels_from = 0;  // samples that the two were computed from
  std::vector<BadSample> bad;
  std::string tern_version;

  bool operator==(const About&) const = default;
};

// What goes into an index. Samples are those of train, then those of test; names are theirs, in
// order, unique within a split.
struct IndexContent {
  std::vector<IndexEntry> entries;  // IndexEntry::name is filled in by encode_index()
  std::vector<std::string> names;
  int64_t train_samples = 0;
  std::vector<IndexFile> files;
  About about;
};

// The bytes of an index, id included. REQUIRES: what IndexContent says holds; names and paths have
// at most kSampleNameBytesMax bytes; mean and stddev are finite. Text of About that is not UTF-8
// has its bad bytes replaced by U+FFFD; names and paths are kept as they are.
Bytes encode_index(const IndexContent& content);

// Immutable, safe from any thread. Nothing fails or blocks after opening, save that a file cut
// short while it is mapped ends the process, like any mapped file: an index is never changed.
class DatasetIndex {
 public:
  // Checks everything before it is used: magic, sizes against the file's, checksums of every
  // section, and that each entry stays within its file, its names and the classes. Paths of files
  // that would leave the folder are refused.
  static Result<std::unique_ptr<DatasetIndex>> open(const std::filesystem::path& file);
  // For an index that came from a store, or a fuzzer. `name` is for messages.
  static Result<std::unique_ptr<DatasetIndex>> from_bytes(Bytes bytes, std::string name);
  ~DatasetIndex();

  int64_t samples() const { return static_cast<int64_t>(entries_.size()); }
  // [begin, end) of one split.
  int64_t first(Split split) const { return split == Split::train ? 0 : train_samples_; }
  int64_t count(Split split) const {
    return split == Split::train ? train_samples_ : samples() - train_samples_;
  }
  // REQUIRES: 0 <= sample < samples().
  const IndexEntry& entry(int64_t sample) const { return entries_[static_cast<size_t>(sample)]; }
  std::string_view name(int64_t sample) const;

  int64_t files() const;
  // REQUIRES: 0 <= file < files().
  std::string_view file_path(int64_t file) const;
  int64_t file_bytes(int64_t file) const;

  const About& about() const { return about_; }
  int64_t classes() const { return static_cast<int64_t>(about_.classes.size()); }
  // The folder that the paths of files are relative to, for a data set in `folder`. `not_found` if
  // it was indexed in place and that place is gone.
  Result<std::filesystem::path> files_folder(const std::filesystem::path& folder) const;
  // 64 hex digits: docs/format_index.md says of what.
  const std::string& id() const { return id_; }
  // That of one split: what a run remembers.
  std::string id(Split split) const;

 private:
  DatasetIndex() = default;
  static Result<std::unique_ptr<DatasetIndex>> read(std::unique_ptr<DatasetIndex> index,
                                                    std::string name);

  struct Mapping;
  std::unique_ptr<Mapping> mapping_;
  BytesView bytes_;
  std::span<const IndexEntry> entries_;
  BytesView files_, names_;
  int64_t train_samples_ = 0;
  About about_;
  std::string id_;
};

}  // namespace tern
