// IDX files (dataset/idx.h has the format): {train,t10k}-images-idx3-ubyte and
// {train,t10k}-labels-idx1-ubyte in a folder, each plain or with .gz.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "import/source.h"

namespace tern {

struct IdxShape {
  std::vector<int64_t> sizes;  // 1 for labels, 3 or 4 for images: count, perhaps channels, rows...
  int64_t header_bytes = 0;
};

// Of a file's beginning; `file_bytes` is how long all of it is, and must be exactly what the header
// says. Reads no byte beyond `begin`.
Result<IdxShape> parse_idx(BytesView begin, int64_t file_bytes);

bool looks_like_idx(const std::filesystem::path& folder);

// The t10k files may be absent. REQUIRES: `folder` is absolute.
Result<std::unique_ptr<Source>> open_idx_source(const std::filesystem::path& folder,
                                                const SourceOptions& options);

}  // namespace tern
