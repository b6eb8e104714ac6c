// What `tern data ls` says of a data set.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cloud/open_store.h"
#include "core/result.h"
#include "dataset/indexed_dataset.h"

namespace tern {

struct DataSummary {
  int64_t bytes = 0;                          // of the samples
  std::vector<std::array<int64_t, 2>> count;  // by label: train, test
  std::array<int64_t, 3> formats{};           // samples by ImageFormat
  ImageSize smallest, largest;                // each side for itself
  double mean_pixels = 0;
};

// The data set in a folder or a bucket; what is missing says what to type. `door` outlives it.
Result<ImportedData> open_data_set(const std::string& place, CloudDoor& door);

DataSummary summarise(const DatasetIndex& index);
// For a terminal: no line is wider than a screen, and of long lists the beginning is shown. For a
// file or a pipe: everything.
enum class SummaryWidth { screen, all };
std::string format_summary(const DatasetIndex& index, const DataSummary& summary,
                           const std::string& folder, SummaryWidth width);
nlohmann::json summary_json(const DatasetIndex& index, const DataSummary& summary);

}  // namespace tern
