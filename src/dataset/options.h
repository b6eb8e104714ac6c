#pragma once

#include <cstdint>
#include <string>

#include "core/options.h"

namespace tern {

struct DataOptions {
  std::string format = "idx";
  std::string path = "/usr/share/datasets/fashion-mnist";
  int64_t classes = 10;
  int64_t file_bytes_max = int64_t{4} << 30;
};

inline void describe(OptionSet& set, DataOptions& options) {
  set.add("format", &options.format,
          {.help = "How the samples are stored: idx (MNIST's files, plain or .gz) or cifar10 (the "
                   "binary batches).",
           .choices = {"idx", "cifar10"}});
  set.add("path", &options.path,
          {.help = "Folder with the data files. May differ between machines: what must agree is "
                   "the content, and that is checked by its id.",
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("classes", &options.classes,
          {.help = "Number of classes; labels are 0 to classes - 1 in every split. A label outside "
                   "is refused when the data is opened.",
           .min = 2,
           .max = 1'000'000});
  set.add("file_bytes_max", &options.file_bytes_max,
          {.help = "Refuse a data file that is, or inflates to, more bytes than this. A larger "
                   "value lets a damaged .gz take that much memory before it is refused.",
           .min = 1,
           .max = 1e15,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
}

}  // namespace tern
