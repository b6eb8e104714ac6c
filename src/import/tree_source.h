// A folder per class, on a disk or in an archive, perhaps below train/ and val/ or test/.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "import/file_walk.h"
#include "import/source.h"
#include "import/survey.h"

namespace tern {

// Where in a tree the classes begin. Folders with '/' at the end, or empty.
struct TreeLayout {
  std::string train;  // "hymenoptera/train/", or where the class folders are if there is no split
  std::string test;   // empty: the tree has no test split
  int64_t classes = 0;
  int64_t train_images = 0;
  int64_t test_images = 0;
  std::string classes_without_train;  // some, for describe(): "zebra"
};

// Folders that all images share are passed over. Of val, valid, validation and test, the first that
// is there becomes the test split. `invalid`: no images, fewer than two classes, or no train/.
Result<TreeLayout> find_tree_layout(const Survey& survey, const std::string& where);

// Images below a class's folder are of that class, however deep. `survey` is of `files`.
Result<std::unique_ptr<Source>> open_tree(std::unique_ptr<FileWalk> files, const Survey& survey,
                                          const SourceOptions& options);

}  // namespace tern
