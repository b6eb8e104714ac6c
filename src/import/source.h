// What a user has: archives, folders, batches. A source names its samples one after the other, in
// an order that is the same every time, which is what lets an import go on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/dataset.h"
#include "image/image.h"

namespace tern {

// Bytes that lie unchanged in a file: a file of a tree, a member of a plain tar, a CIFAR record.
struct FileRange {
  std::string file;  // relative to Source::root(), '/'-separated
  int64_t offset = 0;
  int64_t length = 0;
};

struct SourceSample {
  std::string name;        // unique in its split: "n01440764/n01440764_10026.JPEG"
  std::string class_name;  // "n01440764", "airplane", "7"
  Split split = Split::train;
  // One of the two: where the bytes lie, or, if they had to be unpacked, the bytes.
  std::optional<FileRange> range;
  Bytes bytes;
  // Not empty: why its bytes cannot be had (an odd name, a link). It is listed as bad.
  std::string bad_cause;
  // For pixels without a header (CIFAR, IDX); else the bytes are an encoded image.
  std::optional<ImageInfo> raw;
};

struct SourceOptions {
  // Share of the samples that become the test split where the source has none, chosen by a hash of
  // the name, so that it is the same every time.
  double test_share = 0;
  // A member of an archive that claims more is refused.
  int64_t member_bytes_max = int64_t{1} << 30;
};

// One thread at a time. scan() may be called again, and gives the same samples in the same order.
class Source {
 public:
  virtual ~Source() = default;

  // "ImageNet-2012: train tar, validation tar, devkit".
  virtual std::string describe() const = 0;
  // The folder that FileRange::file is relative to; absolute.
  virtual std::string root() const = 0;
  // Another text if a file of it is written between two imports (FilesVersion); empty: not known.
  virtual std::string version() const { return {}; }
  // True if it has a test split of its own; SourceOptions::test_share then changes nothing.
  virtual bool has_test_split() const { return false; }
  // Of all that scan() reads through, for progress; and how far it has come.
  virtual int64_t total_bytes() const = 0;
  virtual int64_t bytes_done() const = 0;

  // Calls `visit` for each sample; an error of it ends the scan and is returned. Files that are no
  // samples (thumbs.db, README) are passed over and counted in ignored(). Errors of the source name
  // the archive and the member.
  virtual Status scan(const std::function<Status(SourceSample)>& visit) = 0;
  virtual int64_t ignored() const = 0;

  // After scan(): the classes in the order of their labels, if the source says so itself; empty:
  // all that were seen, sorted (as numbers where all are numbers).
  virtual std::vector<std::string> classes() const { return {}; }
  // Words for people, by class name.
  virtual std::vector<std::pair<std::string, std::string>> class_titles() const { return {}; }
};

// Finds out what lies at `path` and opens it:
//   a folder with ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and ILSVRC2012_devkit_t12.tar.gz
//   a folder or archive in Tiny-ImageNet's layout (wnids.txt, train/, val/val_annotations.txt)
//   a folder or archive with CIFAR-10's or CIFAR-100's binary batches
//   a folder with IDX files, plain or .gz
//   tar shards of .cls with .jpg, .jpeg or .png (WebDataset): one, or a folder of them
//   a folder or archive with a folder per class, perhaps below train/ and val/ or test/
// `invalid` says what was found instead and what is understood; ImageNet with a part missing says
// which to download.
Result<std::unique_ptr<Source>> open_source(const std::filesystem::path& path,
                                            const SourceOptions& options);

}  // namespace tern
