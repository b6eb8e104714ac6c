// Tiny-ImageNet's layout, in a folder or an archive (cs231n.stanford.edu/tiny-imagenet-200.zip):
//   wnids.txt, words.txt, train/WNID/images/*.JPEG, val/images/*.JPEG, val/val_annotations.txt
// test/ has no labels and is passed over; val/ becomes the test split. Labels are those of the
// sorted WNIDs, as torchvision's ImageFolder gives them.
#pragma once

#include <memory>

#include "core/result.h"
#include "import/file_walk.h"
#include "import/source.h"
#include "import/survey.h"

namespace tern {

bool looks_like_tiny_imagenet(const Survey& survey);

// REQUIRES: looks_like_tiny_imagenet(survey), and it is of `files`.
Result<std::unique_ptr<Source>> open_tiny_imagenet(std::unique_ptr<FileWalk> files,
                                                   const Survey& survey,
                                                   const SourceOptions& options);

}  // namespace tern
