// The pickle inside a file of torch.save(), read as data. Nothing that it names is ever called: it
// may hold tensors, dicts, lists, numbers and text, and any other name is refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// A tensor as the pickle describes it. None of it is checked against the storage's real bytes.
struct PickledTensor {
  std::string name;     // its key in the state dict
  std::string dtype;    // safetensors' name
  std::string storage;  // the member data/STORAGE; tensors may share one
  int64_t storage_elements = 0;
  int64_t offset = 0;  // in elements
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements; as many as shape, none negative
};

// The tensors of a state dict, in its order: the pickled value itself, or what it has under
// `state_dict`, `model` or `model_state_dict`. Other values beside the tensors are left out.
// `corrupt` for damage and for a name that is not on the short list above, with that name;
// `invalid` if there is no state dict. Memory is bounded by a multiple of the pickle's size, and
// that by kPickleBytesMax.
Result<std::vector<PickledTensor>> parse_state_dict(BytesView pickle);

// A state dict of ten thousand tensors has about 2 MB.
inline constexpr int64_t kPickleBytesMax = int64_t{64} << 20;

}  // namespace tern
