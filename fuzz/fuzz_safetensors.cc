// Parsing whatever claims to be a safetensors file, or one of torch.save().
#include "fuzz/fuzz.h"
#include "storage/safetensors.h"
#include "storage/torch_file.h"
#include "storage/torch_pickle.h"

namespace tern {
namespace {

constexpr int64_t kBytesMax = 1 << 20;

void check_view(const TensorView& tensor, BytesView within) {
  int64_t bytes = *dtype_bytes(tensor.dtype);
  for (const int64_t size : tensor.shape) bytes *= size;
  TERN_CHECK(static_cast<int64_t>(tensor.data.size()) == bytes);
  TERN_CHECK(bytes == 0 || (tensor.data.data() >= within.data() &&
                            tensor.data.data() + bytes <= within.data() + within.size()));
}

void try_safetensors(BytesView bytes) {
  const Result<Safetensors> parsed = parse_safetensors(bytes);
  if (!parsed) return;
  for (const TensorView& tensor : parsed->tensors) check_view(tensor, bytes);
  // What was understood can be written, and is the same when read again.
  const Bytes again = write_safetensors(*parsed);
  const Result<Safetensors> copy = parse_safetensors(again);
  TERN_CHECK(copy.has_value() && copy->tensors.size() == parsed->tensors.size());
  TERN_CHECK(copy->metadata == parsed->metadata);
  for (size_t i = 0; i < parsed->tensors.size(); ++i) {
    TERN_CHECK(copy->tensors[i].name == parsed->tensors[i].name);
    TERN_CHECK(copy->tensors[i].data == parsed->tensors[i].data);
  }
}

void try_torch_file(BytesView bytes) {
  const Result<TorchTensors> read = read_torch_file(bytes, kBytesMax);
  if (!read) return;
  TERN_CHECK(static_cast<int64_t>(read->bytes.size()) <=
             kBytesMax + 64 * static_cast<int64_t>(read->tensors.tensors.size()));
  for (const TensorView& tensor : read->tensors.tensors) check_view(tensor, read->bytes);
}

void try_pickle(BytesView bytes) {
  const Result<std::vector<PickledTensor>> tensors = parse_state_dict(bytes);
  if (!tensors) return;
  TERN_CHECK(!tensors->empty());
  for (const PickledTensor& tensor : *tensors) {
    TERN_CHECK(tensor.shape.size() == tensor.strides.size() && tensor.offset >= 0);
  }
}

// The last byte chooses: a safetensors file, a zip of torch.save(), or its pickle alone.
void try_weights(BytesView bytes) {
  switch (take_choice(bytes) % 3) {
    case 0: return try_safetensors(bytes);
    case 1: return try_torch_file(bytes);
    default: return try_pickle(bytes);
  }
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_weights)
