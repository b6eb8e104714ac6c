#include "import/mat_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <bit>
#include <cstring>
#include <optional>
#include <utility>

namespace tern {
namespace {

constexpr size_t kFileHeaderBytes = 128;
// ImageNet's has 1,860 structs of 8 fields in about 1 MB.
constexpr size_t kUnpackedBytesMax = size_t{16} << 20;
constexpr uint64_t kValuesMax = 200'000;

// The format's numbers for what is stored...
enum Type : uint32_t {
  kInt8 = 1,
  kUint8 = 2,
  kInt16 = 3,
  kUint16 = 4,
  kInt32 = 5,
  kUint32 = 6,
  kSingle = 7,
  kDouble = 9,
  kMatrix = 14,
  kCompressed = 15,
  kUtf8 = 16,
  kUtf16 = 17,
};
// ...and for what it is to MATLAB.
enum Class : uint32_t { kStructClass = 2, kCharClass = 4, kFirstNumberClass = 6, kLastClass = 15 };

Error damaged(const char* what) {
  return fail(Code::corrupt, fmt::format("the MAT-file is damaged: {}; fetch it again", what));
}

struct Element {
  uint32_t type = 0;
  BytesView data;
};

// Reads element after element of some bytes, never beyond them.
class Elements {
 public:
  Elements(BytesView bytes, bool swap) : rest_(bytes), swap_(swap) {}

  bool at_end() const { return rest_.empty(); }
  bool swaps() const { return swap_; }

  Result<Element> next() {
    if (rest_.size() < 8) return damaged("an element without a tag");
    const uint32_t first = number<uint32_t>(rest_);
    // A small element: its size, at most 4, is in the upper half of the first word.
    if (const uint32_t small_bytes = first >> 16; small_bytes != 0) {
      if (small_bytes > 4) return damaged("a small element that is not small");
      const Element element{first & 0xffff, rest_.substr(4, small_bytes)};
      rest_.remove_prefix(8);
      return element;
    }
    const size_t bytes = number<uint32_t>(rest_.substr(4));
    if (bytes > rest_.size() - 8) return damaged("an element that is longer than the file");
    const Element element{first, rest_.substr(8, bytes)};
    // Compressed elements follow each other without padding; the last one's may be missing.
    const size_t padding = first == kCompressed ? 0 : (8 - bytes % 8) % 8;
    rest_.remove_prefix(std::min(8 + bytes + padding, rest_.size()));
    return element;
  }

  Result<BytesView> next_of(uint32_t type) {
    ASSIGN_OR_RETURN(const Element element, next());
    if (element.type != type) return damaged("an element of another type than it must have");
    return element.data;
  }

  // REQUIRES: bytes.size() >= sizeof(T).
  template <typename T>
  T number(BytesView bytes) const {
    char raw[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) raw[i] = bytes[swap_ ? sizeof(T) - 1 - i : i];
    T value;
    std::memcpy(&value, raw, sizeof(T));
    return value;
  }

 private:
  BytesView rest_;
  const bool swap_;
};

// The begin of every matrix.
struct MatrixHead {
  uint32_t type = 0;   // Class
  uint64_t count = 0;  // product of the dimensions
  BytesView name;
};

Result<MatrixHead> read_head(Elements& elements) {
  MatrixHead head;
  ASSIGN_OR_RETURN(const BytesView flags, elements.next_of(kUint32));
  if (flags.size() != 8) return damaged("array flags of a wrong size");
  head.type = elements.number<uint32_t>(flags) & 0xff;
  ASSIGN_OR_RETURN(BytesView sizes, elements.next_of(kInt32));
  head.count = sizes.empty() ? 0 : 1;
  if (sizes.size() % 4 != 0) return damaged("dimensions of a wrong size");
  for (; !sizes.empty(); sizes.remove_prefix(4)) {
    const int32_t size = elements.number<int32_t>(sizes);
    if (size < 0 || __builtin_mul_overflow(head.count, static_cast<uint64_t>(size), &head.count)) {
      return damaged("impossible dimensions");
    }
  }
  ASSIGN_OR_RETURN(head.name, elements.next_of(kInt8));
  return head;
}

template <typename T>
std::optional<double> as_double(const Elements& elements, BytesView data) {
  if (data.size() != sizeof(T)) return {};
  return static_cast<double>(elements.number<T>(data));
}

// MATLAB stores a number in the smallest type that holds it, whatever its class.
std::optional<double> read_number(const Elements& elements, const Element& element) {
  switch (element.type) {
    case kInt8: return as_double<int8_t>(elements, element.data);
    case kUint8: return as_double<uint8_t>(elements, element.data);
    case kInt16: return as_double<int16_t>(elements, element.data);
    case kUint16: return as_double<uint16_t>(elements, element.data);
    case kInt32: return as_double<int32_t>(elements, element.data);
    case kUint32: return as_double<uint32_t>(elements, element.data);
    case kSingle: return as_double<float>(elements, element.data);
    case kDouble: return as_double<double>(elements, element.data);
    default: return {};
  }
}

void append_utf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0xd800 || code > 0xdfff) {
    text += static_cast<char>(0xe0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += '?';  // half of a pair: no word of ImageNet needs one
  }
}

std::optional<std::string> read_text(const Elements& elements, const Element& element) {
  BytesView data = element.data;
  if (element.type == kUtf8 || element.type == kInt8) return std::string(data);
  std::string text;
  if (element.type == kUint8) {
    for (const char c : data) append_utf8(static_cast<uint8_t>(c), text);
    return text;
  }
  if ((element.type != kUint16 && element.type != kUtf16) || data.size() % 2 != 0) return {};
  for (; !data.empty(); data.remove_prefix(2)) append_utf8(elements.number<uint16_t>(data), text);
  return text;
}

Result<MatValue> read_value(BytesView matrix, bool swap) {
  MatValue value;
  if (matrix.empty()) return value;  // how [] may be written
  Elements elements(matrix, swap);
  ASSIGN_OR_RETURN(const MatrixHead head, read_head(elements));
  const bool is_number = head.type >= kFirstNumberClass && head.type <= kLastClass;
  if (head.type != kCharClass && !(is_number && head.count == 1)) return value;
  if (elements.at_end()) return value;
  ASSIGN_OR_RETURN(const Element element, elements.next());
  if (is_number) {
    const std::optional<double> number = read_number(elements, element);
    if (!number) return damaged("a number of an unknown type");
    value.is_number = true;
    value.number = *number;
    return value;
  }
  std::optional<std::string> text = read_text(elements, element);
  if (!text) return damaged("a text of an unknown type");
  value.is_text = true;
  value.text = std::move(*text);
  return value;
}

Result<std::vector<std::string>> read_field_names(Elements& elements) {
  ASSIGN_OR_RETURN(const BytesView length_bytes, elements.next_of(kInt32));
  if (length_bytes.size() != 4) return damaged("a field name length of a wrong size");
  const int32_t length = elements.number<int32_t>(length_bytes);
  ASSIGN_OR_RETURN(const BytesView all, elements.next_of(kInt8));
  if (length < 1 || length > 1024 || all.size() % static_cast<size_t>(length) != 0) {
    return damaged("field names of a wrong size");
  }
  std::vector<std::string> names;
  for (size_t at = 0; at < all.size(); at += static_cast<size_t>(length)) {
    const BytesView name = all.substr(at, static_cast<size_t>(length));
    names.emplace_back(name.substr(0, name.find('\0')));
  }
  return names;
}

// The elements of a struct array whose head has been read.
Result<std::vector<MatStruct>> read_structs(Elements& elements, const MatrixHead& head) {
  if (head.type != kStructClass) {
    return fail(Code::corrupt, "the MAT-file's variable is no array of structs; fetch it again");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, read_field_names(elements));
  std::vector<MatStruct> structs;
  uint64_t values = 0;
  if (names.empty()) return structs;
  if (__builtin_mul_overflow(head.count, uint64_t{names.size()}, &values) || values > kValuesMax) {
    return damaged("it claims more structs than ImageNet can have");
  }
  for (uint64_t i = 0; i < head.count; ++i) {
    MatStruct& fields = structs.emplace_back();
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const BytesView matrix, elements.next_of(kMatrix));
      ASSIGN_OR_RETURN(fields[name], read_value(matrix, elements.swaps()));
    }
  }
  return structs;
}

Result<Bytes> unpack(BytesView packed) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return fail(Code::exhausted, "no memory to unpack a MAT-file");
  Bytes unpacked;
  int code = Z_OK;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::vector<char> room(size_t{1} << 16);
  while (code == Z_OK && unpacked.size() <= kUnpackedBytesMax) {
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    code = inflate(&stream, Z_NO_FLUSH);
    unpacked.append(room.data(), room.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (unpacked.size() > kUnpackedBytesMax) {
    return fail(Code::exhausted, "the MAT-file unpacks to more than 16 MiB; fetch it again");
  }
  if (code != Z_STREAM_END) return damaged("a compressed element does not unpack");
  return unpacked;
}

}  // namespace

Result<std::vector<MatStruct>> read_mat_structs(BytesView file, std::string_view name) {
  if (file.size() < kFileHeaderBytes) return damaged("it is too short");
  const BytesView order = file.substr(126, 2);
  if (order != "IM" && order != "MI") {
    return fail(Code::corrupt, "this is no MAT-file of level 5; fetch it again");
  }
  // "IM" is what a little-endian machine writes for the number "MI".
  const bool swap = (order == "IM") != (std::endian::native == std::endian::little);
  Elements elements(file.substr(kFileHeaderBytes), swap);
  if (elements.number<uint16_t>(file.substr(124)) != 0x0100) {
    return fail(Code::corrupt, "this is a MAT-file of another version than 5; fetch it again");
  }
  size_t unpacked_bytes = 0;
  while (!elements.at_end()) {
    ASSIGN_OR_RETURN(Element element, elements.next());
    Bytes unpacked;
    if (element.type == kCompressed) {
      ASSIGN_OR_RETURN(unpacked, unpack(element.data));
      unpacked_bytes += unpacked.size();
      if (unpacked_bytes > kUnpackedBytesMax) {
        return fail(Code::exhausted, "the MAT-file unpacks to more than 16 MiB; fetch it again");
      }
      ASSIGN_OR_RETURN(element, Elements(unpacked, swap).next());
    }
    if (element.type != kMatrix || element.data.empty()) continue;
    Elements matrix(element.data, swap);
    ASSIGN_OR_RETURN(const MatrixHead head, read_head(matrix));
    if (head.name == name) return read_structs(matrix, head);
  }
  return fail(Code::not_found,
              fmt::format("the MAT-file has no variable '{}'; fetch it again", name));
}

}  // namespace tern
