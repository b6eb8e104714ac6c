// Tensors in a file that other tools read too (Python's `safetensors`, for one).
// Format: docs/format_safetensors.md. No LibTorch here: tensors are views of bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

struct TensorView {
  std::string name;
  std::string dtype;  // "F32", "F64", "I64", "U8", ...: safetensors' names
  std::vector<int64_t> shape;
  BytesView data;  // row-major, little-endian
};

struct Safetensors {
  std::vector<TensorView> tensors;              // in the order of their bytes
  std::map<std::string, std::string> metadata;  // the file's __metadata__
};

// Bytes of one element; nothing for a dtype we do not know.
std::optional<int64_t> dtype_bytes(std::string_view dtype);

// The same input gives the same bytes. REQUIRES: names differ, data sizes fit dtype and shape.
Bytes write_safetensors(const Safetensors& file);

// Views into `bytes`, which must outlive the result. Every length and offset is checked against the
// real size before use; a damaged file is `corrupt` with the reason.
Result<Safetensors> parse_safetensors(BytesView bytes);

}  // namespace tern
