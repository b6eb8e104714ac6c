// ImageNet-2012 as image-net.org distributes it: a folder with
//   ILSVRC2012_img_train.tar         a tar per class, n01440764.tar, with that class's JPEGs
//   ILSVRC2012_img_val.tar           50,000 JPEGs, numbered
//   ILSVRC2012_devkit_t12.tar.gz     the classes (meta.mat) and the labels of val
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "import/source.h"

namespace tern {

// What the development kit says.
struct ImagenetLabels {
  std::map<std::string, std::string> titles;  // WNID: "tench, Tinca tinca", of the classes
  std::vector<std::string> val;               // the WNID of each validation image, in order
};

// The classes are the synsets with an ILSVRC2012_ID of at most 1000; the others are their
// hypernyms.
Result<ImagenetLabels> parse_imagenet_labels(BytesView meta_mat, BytesView val_ground_truth);

// Any of the three files is there.
bool looks_like_imagenet(const std::filesystem::path& folder);

// Reads the development kit. `invalid` names a file that must be downloaded; without the validation
// tar there is a test split only by SourceOptions::test_share. REQUIRES: `folder` is absolute.
Result<std::unique_ptr<Source>> open_imagenet(const std::filesystem::path& folder,
                                              const SourceOptions& options);

}  // namespace tern
