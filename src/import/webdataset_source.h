// Tar shards in WebDataset's layout (github.com/webdataset/webdataset): members that share a name
// up to the first dot belong together, KEY.jpg (.jpeg, .png) and KEY.cls, the class as a number.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "import/source.h"

namespace tern {

// Test if the shard's file name contains "val" or "test" and not "train"; if it has none of them,
// the folders between the source and the shard decide; else train.
Split split_of_shard(std::string_view shard);

// `shards` are relative to `root`, which is absolute, in the order they are read.
Result<std::unique_ptr<Source>> open_webdataset(const std::filesystem::path& root,
                                                std::vector<std::string> shards,
                                                const SourceOptions& options);

}  // namespace tern
