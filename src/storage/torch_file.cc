#include "storage/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "storage/stored_zip.h"
#include "storage/torch_pickle.h"

namespace tern {
namespace {

constexpr std::string_view kPickleMember = "/data.pkl";
constexpr size_t kAlignment = 64;
// Tensors may share a storage (tied weights do), or repeat its elements by strides of 0.
constexpr int64_t kExpansionMax = 8;

Error damaged(std::string_view reason) {
  return fail(Code::corrupt, fmt::format("no whole file of torch.save(): {}", reason));
}

// What every member's name begins with: the name that the file had when it was written.
Result<std::string> find_prefix(const ZipMembers& members) {
  std::optional<std::string> prefix;
  for (const auto& [name, data] : members) {
    if (!name.ends_with(kPickleMember)) continue;
    if (prefix) return damaged("it has two pickles");
    prefix = name.substr(0, name.size() - kPickleMember.size() + 1);
  }
  if (!prefix) return damaged("it is a zip file without data.pkl: another program's");
  return *prefix;
}

// Elements of a tensor, and one past the last one that its strides reach; nothing on overflow.
struct Extent {
  int64_t elements = 1;
  int64_t reach = 0;
};
std::optional<Extent> extent_of(const PickledTensor& tensor) {
  Extent extent;
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t span = 0;
    if (__builtin_mul_overflow(extent.elements, tensor.shape[i], &extent.elements) ||
        __builtin_mul_overflow(std::max<int64_t>(0, tensor.shape[i] - 1), tensor.strides[i],
                               &span) ||
        __builtin_add_overflow(last, span, &last)) {
      return std::nullopt;
    }
  }
  if (extent.elements == 0) return extent;
  if (__builtin_add_overflow(last, 1, &extent.reach)) return std::nullopt;
  return extent;
}

bool is_row_major(const PickledTensor& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Appends the elements in row-major order. REQUIRES: all of them lie within `storage`.
void append_elements(const PickledTensor& tensor, BytesView storage, const Extent& extent,
                     size_t element, Bytes& out) {
  if (extent.elements == 0) return;
  const auto begin = static_cast<size_t>(tensor.offset) * element;
  if (is_row_major(tensor)) {
    out += storage.substr(begin, static_cast<size_t>(extent.elements) * element);
    return;
  }
  std::vector<int64_t> index(tensor.shape.size(), 0);
  int64_t at = tensor.offset;
  for (int64_t left = extent.elements; left > 0; --left) {
    out += storage.substr(static_cast<size_t>(at) * element, element);
    for (size_t i = index.size(); i-- > 0;) {
      at += tensor.strides[i];
      if (++index[i] < tensor.shape[i]) break;
      at -= tensor.strides[i] * tensor.shape[i];
      index[i] = 0;
    }
  }
}

// A tensor, checked against the storage that it lies in.
struct Checked {
  const PickledTensor* tensor = nullptr;
  BytesView storage;
  Extent extent;
  int64_t element = 0;
};

Result<Checked> check_tensor(const PickledTensor& tensor, const ZipMembers& members,
                             const std::string& prefix) {
  const auto bad = [&tensor](std::string_view reason) {
    return damaged(fmt::format("tensor '{}': {}", tensor.name, reason));
  };
  const auto member = members.find(prefix + "data/" + tensor.storage);
  if (member == members.end()) return bad("its storage is not in the file");
  Checked checked{.tensor = &tensor, .storage = member->second};
  const std::optional<int64_t> element = dtype_bytes(tensor.dtype);
  if (!element) return bad(fmt::format("dtype '{}' is unknown", tensor.dtype));
  checked.element = *element;
  const auto elements_there = static_cast<int64_t>(checked.storage.size()) / *element;
  if (tensor.storage_elements != elements_there) {
    return bad(fmt::format("its storage should have {} elements and has {}",
                           tensor.storage_elements, elements_there));
  }
  const std::optional<Extent> extent = extent_of(tensor);
  if (!extent || extent->reach > elements_there) {
    return bad("its shape and strides reach beyond its storage");
  }
  checked.extent = *extent;
  return checked;
}

}  // namespace

Result<TorchTensors> read_torch_file(BytesView file, int64_t bytes_max) {
  ASSIGN_OR_RETURN(const ZipMembers members, parse_stored_zip(file));
  ASSIGN_OR_RETURN(const std::string prefix, find_prefix(members));
  if (const auto order = members.find(prefix + "byteorder");
      order != members.end() && order->second != "little") {
    return fail(Code::invalid,
                "it was written on a big-endian machine; load and save it again "
                "with torch on an ordinary one");
  }
  ASSIGN_OR_RETURN(const std::vector<PickledTensor> pickled,
                   parse_state_dict(members.find(prefix + "data.pkl")->second));
  const int64_t limit = std::min(bytes_max, kExpansionMax * static_cast<int64_t>(file.size()));
  std::vector<Checked> all;
  int64_t total = 0;
  for (const PickledTensor& tensor : pickled) {
    ASSIGN_OR_RETURN(const Checked checked, check_tensor(tensor, members, prefix));
    int64_t bytes = 0;
    if (__builtin_mul_overflow(checked.extent.elements, checked.element, &bytes) ||
        bytes > limit - total) {
      return fail(Code::exhausted, fmt::format("its tensors have more than {} bytes together, "
                                               "which is more than a state dict of this size has",
                                               limit));
    }
    total += bytes;
    all.push_back(checked);
  }
  TorchTensors result;
  // Never so short that it lies in the string itself: the views survive a move then.
  result.bytes.reserve(static_cast<size_t>(total) + kAlignment * (all.size() + 1));
  for (const Checked& checked : all) {
    result.bytes.resize((result.bytes.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
    const size_t begin = result.bytes.size();
    append_elements(*checked.tensor, checked.storage, checked.extent,
                    static_cast<size_t>(checked.element), result.bytes);
    result.tensors.tensors.push_back({checked.tensor->name, checked.tensor->dtype,
                                      checked.tensor->shape,
                                      BytesView(result.bytes).substr(begin)});
  }
  return result;
}

}  // namespace tern
