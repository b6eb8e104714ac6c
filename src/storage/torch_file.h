// Files of torch.save() (.pth, .pt): a zip of a pickle and the storages that its tensors lie in.
#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "storage/safetensors.h"

namespace tern {

// Tensors, row-major whatever they were in the file; the views point into `bytes`, which may be
// moved and not copied.
struct TorchTensors {
  Bytes bytes;
  Safetensors tensors;
};

// Runs no code of the file: see torch_pickle.h. Sizes are checked against the file's real bytes
// before memory is taken; `exhausted` where the tensors together have more than `bytes_max`
// (strides may repeat elements, so a small file can ask for much).
Result<TorchTensors> read_torch_file(BytesView file, int64_t bytes_max);

}  // namespace tern
