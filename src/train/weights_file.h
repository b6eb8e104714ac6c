// Weights that somebody else made: a .safetensors file, or a .pth that torch.save() wrote, here or
// in a bucket.
#pragma once

#include <filesystem>
#include <string>

#include "core/bytes.h"
#include "core/result.h"
#include "dataset/options.h"
#include "storage/safetensors.h"

namespace tern {

// The tensors are views into `bytes`: it moves, it is not copied.
struct WeightsFile {
  Bytes bytes;
  Safetensors tensors;
  std::string sha256;  // of the file, in hex
};

inline constexpr int64_t kWeightsBytesMax = int64_t{16} << 30;

// Told by its content, not by its name. A .pth may hold a state dict, or a dict that has one under
// `state_dict`, `model` or `model_state_dict`; a leading "module." (of DataParallel) is taken off
// the names where all have it. No code of the file is run, whatever it asks for. `not_found`,
// `corrupt` with the reason, `invalid` for a format that is not read, `exhausted` for a file beyond
// `bytes_max`. Blocks for reading.
Result<WeightsFile> read_weights_file(const std::filesystem::path& path,
                                      int64_t bytes_max = kWeightsBytesMax);
// The same of a path, of file:///path, or of an object such as s3://bucket/weights.safetensors,
// which is fetched whole. `open_store` may be null: only files then.
Result<WeightsFile> read_weights(const std::string& place, const StoreOpener& open_store,
                                 int64_t bytes_max = kWeightsBytesMax);

// Whether there is something to read at such a place; for an object one small request.
Status find_weights(const std::string& place, const StoreOpener& open_store);

}  // namespace tern
