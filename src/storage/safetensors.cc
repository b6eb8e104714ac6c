#include "storage/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
// The reference implementation's limit, so that we write and read what it does.
constexpr uint64_t kHeaderBytesMax = 100'000'000;
constexpr char kMetadataKey[] = "__metadata__";
// An ordinary header is three deep. A file of nothing but brackets would take fifty times its size.
constexpr int kDepthMax = 16;
constexpr size_t kDimensionsMax = 64;

constexpr std::pair<std::string_view, int64_t> kDtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
    {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},     {"I32", 4},
    {"F32", 4},  {"U64", 8}, {"I64", 8}, {"F64", 8},     {"C64", 8},
};

Error damaged(std::string_view reason) {
  return fail(Code::corrupt,
              fmt::format("no whole safetensors file: {}; fetch or write it again", reason));
}

Error bad_tensor(std::string_view name, std::string_view reason) {
  return damaged(fmt::format("tensor '{}': {}", name, reason));
}

// Replaces what is not UTF-8, so that it cannot throw.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Bytes of a tensor; nothing if the dtype is unknown, a size negative or the product too large.
std::optional<int64_t> tensor_bytes(std::string_view dtype, const std::vector<int64_t>& shape) {
  const std::optional<int64_t> element_bytes = dtype_bytes(dtype);
  if (!element_bytes) return std::nullopt;
  int64_t bytes = *element_bytes;
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// A whole number from 0 to 2^63 - 1; nothing for any other JSON.
std::optional<int64_t> as_count(const Json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const uint64_t value = json.get<uint64_t>();
  if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return std::nullopt;
  return static_cast<int64_t>(value);
}

// A tensor of the header, before its bytes are looked at.
struct Entry {
  TensorView tensor;
  int64_t begin = 0;
  int64_t end = 0;
};

Result<Entry> parse_entry(const std::string& name, const Json& json) {
  if (!json.is_object()) return bad_tensor(name, "its description is no object");
  const auto dtype = json.find("dtype");
  const auto shape = json.find("shape");
  const auto offsets = json.find("data_offsets");
  if (dtype == json.end() || !dtype->is_string()) return bad_tensor(name, "no dtype");
  if (shape == json.end() || !shape->is_array()) return bad_tensor(name, "no shape");
  if (offsets == json.end() || !offsets->is_array() || offsets->size() != 2) {
    return bad_tensor(name, "no data_offsets");
  }
  if (shape->size() > kDimensionsMax) return bad_tensor(name, "its shape is no shape");
  Entry entry;
  entry.tensor.name = name;
  entry.tensor.dtype = dtype->get<std::string>();
  for (const Json& size : *shape) {
    const std::optional<int64_t> count = as_count(size);
    if (!count) return bad_tensor(name, "a size in its shape is no whole number");
    entry.tensor.shape.push_back(*count);
  }
  const std::optional<int64_t> begin = as_count((*offsets)[0]);
  const std::optional<int64_t> end = as_count((*offsets)[1]);
  if (!begin || !end || *begin > *end) return bad_tensor(name, "its data_offsets are no range");
  const std::optional<int64_t> bytes = tensor_bytes(entry.tensor.dtype, entry.tensor.shape);
  if (!bytes) {
    return bad_tensor(
        name, fmt::format("dtype '{}' is unknown or its shape is too large", entry.tensor.dtype));
  }
  if (*end - *begin != *bytes) {
    return bad_tensor(
        name, fmt::format("dtype and shape make {} bytes, data_offsets {}", *bytes, *end - *begin));
  }
  entry.begin = *begin;
  entry.end = *end;
  return entry;
}

Result<std::map<std::string, std::string>> parse_metadata(const Json& json) {
  if (!json.is_object()) return damaged("__metadata__ is no object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return damaged(fmt::format("__metadata__ '{}' is no text", key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Looks at the brackets outside of texts alone; whether they match is the parser's to say.
bool is_too_deep(BytesView text) {
  int depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      is_text = !is_text;
    } else if (!is_text && (c == '{' || c == '[')) {
      if (++depth > kDepthMax) return true;
    } else if (!is_text && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return false;
}

// The header's JSON object. JSON libraries keep the last of equal keys; a file with a tensor twice
// is damaged, so keys are watched while they are parsed.
Result<Json> parse_header(BytesView text) {
  // The library takes a zero byte for the end of its input.
  if (!text.starts_with('{') || text.find('\0') != BytesView::npos) {
    return damaged("its header is no JSON object");
  }
  if (is_too_deep(text)) return damaged("its header is nested too deep");
  std::set<std::string> keys;
  bool repeated = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      repeated = !keys.insert(parsed.get<std::string>()).second || repeated;
    }
    return true;
  };
  Json header = Json::parse(text, watch, false);
  if (!header.is_object()) return damaged("its header is no JSON object");
  if (repeated) return damaged("a name appears twice in its header");
  return header;
}

// Sorts the tensors by their bytes, which must cover `data` without gap or overlap, and gives each
// its own.
Status assign_data(std::vector<Entry>& entries, BytesView data) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  const int64_t size = static_cast<int64_t>(data.size());
  int64_t end = 0;
  for (Entry& entry : entries) {
    if (entry.begin != end) {
      return bad_tensor(entry.tensor.name,
                        fmt::format("its bytes begin at {} instead of {}", entry.begin, end));
    }
    if (entry.end > size) {
      return bad_tensor(entry.tensor.name,
                        fmt::format("its bytes end at {} of {}", entry.end, size));
    }
    entry.tensor.data =
        data.substr(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin));
    end = entry.end;
  }
  if (end != size) return damaged(fmt::format("its tensors end at {} of {} bytes", end, size));
  return {};
}

}  // namespace

std::optional<int64_t> dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

Bytes write_safetensors(const Safetensors& file) {
  std::string header = "{";
  if (!file.metadata.empty()) header += fmt::format("\"{}\":{}", kMetadataKey, dump(file.metadata));
  std::set<std::string_view> names;
  int64_t end = 0;
  for (const TensorView& tensor : file.tensors) {
    TERN_CHECK(names.insert(tensor.name).second && tensor.name != kMetadataKey);
    const int64_t begin = end;
    end += static_cast<int64_t>(tensor.data.size());
    TERN_CHECK(tensor_bytes(tensor.dtype, tensor.shape) == end - begin);
    if (header.size() > 1) header += ',';
    header +=
        fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", dump(tensor.name),
                    tensor.dtype, fmt::join(tensor.shape, ","), begin, end);
  }
  header += '}';
  // Data that begins at a multiple of 8 can be mapped and used in place.
  header.resize((header.size() + 7) / 8 * 8, ' ');
  TERN_CHECK(header.size() <= kHeaderBytesMax);

  Bytes bytes;
  bytes.reserve(kLengthBytes + header.size() + static_cast<size_t>(end));
  for (size_t i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(uint64_t{header.size()} >> (8 * i));
  }
  bytes += header;
  for (const TensorView& tensor : file.tensors) bytes += tensor.data;
  return bytes;
}

Result<Safetensors> parse_safetensors(BytesView bytes) {
  if (bytes.size() < kLengthBytes) return damaged("it is shorter than 8 bytes");
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  bytes.remove_prefix(kLengthBytes);
  if (header_bytes > kHeaderBytesMax || header_bytes > bytes.size()) {
    return damaged(fmt::format("its header would have {} bytes", header_bytes));
  }
  ASSIGN_OR_RETURN(const Json header, parse_header(bytes.substr(0, header_bytes)));
  Safetensors file;
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadataKey) {
      ASSIGN_OR_RETURN(file.metadata, parse_metadata(json));
      continue;
    }
    ASSIGN_OR_RETURN(Entry entry, parse_entry(name, json));
    entries.push_back(std::move(entry));
  }
  RETURN_IF_ERROR(assign_data(entries, bytes.substr(header_bytes)));
  for (Entry& entry : entries) file.tensors.push_back(std::move(entry.tensor));
  return file;
}

}  // namespace tern
