// For tests: MAT-files of level 5, byte by byte, in either byte order.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace tern {

class MatWriter {
 public:
  explicit MatWriter(bool is_big_endian) : is_big_endian_(is_big_endian) {}

  template <typename T>
  Bytes number(T value) const {
    Bytes raw(sizeof(T), '\0');
    std::memcpy(raw.data(), &value, sizeof(T));
    if (is_big_endian_) std::reverse(raw.begin(), raw.end());
    return raw;
  }
  Bytes element(uint32_t type, const Bytes& data) const {
    return number(type) + number(static_cast<uint32_t>(data.size())) + data +
           Bytes((8 - data.size() % 8) % 8, '\0');
  }
  // At most 4 bytes, in the tag.
  Bytes small_element(uint32_t type, const Bytes& data) const {
    return number(static_cast<uint32_t>(data.size() << 16 | type)) + data +
           Bytes(4 - data.size(), '\0');
  }
  Bytes matrix(uint32_t kind, const std::vector<int32_t>& sizes, const std::string& name,
               const Bytes& rest) const {
    Bytes dimensions;
    for (const int32_t size : sizes) dimensions += number(size);
    return element(14, element(6, number(kind) + number(uint32_t{0})) + element(5, dimensions) +
                           element(1, name) + rest);
  }
  Bytes number_matrix(double value) const {
    return matrix(6, {1, 1}, "", element(9, number(value)));
  }
  // As MATLAB does with whole numbers: two bytes in a small element.
  Bytes short_matrix(uint16_t value) const {
    return matrix(6, {1, 1}, "", small_element(4, number(value)));
  }
  Bytes text_matrix(const std::string& text) const {
    Bytes wide;
    for (const char c : text) wide += number(static_cast<uint16_t>(static_cast<uint8_t>(c)));
    return matrix(4, {1, static_cast<int32_t>(text.size())}, "", element(4, wide));
  }
  // `values` has one matrix per field and struct, struct by struct.
  Bytes structs(const std::string& name, int32_t count, const std::vector<std::string>& fields,
                const std::vector<Bytes>& values) const {
    constexpr size_t kNameBytes = 32;
    Bytes names, all;
    for (const std::string& field : fields) names += field + Bytes(kNameBytes - field.size(), '\0');
    for (const Bytes& value : values) all += value;
    return matrix(2, {count, 1}, name,
                  small_element(5, number(int32_t{kNameBytes})) + element(1, names) + all);
  }
  Bytes compressed(const Bytes& plain) const {
    uLongf room = compressBound(plain.size());
    Bytes packed(room, '\0');
    compress(reinterpret_cast<Bytef*>(packed.data()), &room,
             reinterpret_cast<const Bytef*>(plain.data()), plain.size());
    packed.resize(room);
    return number(uint32_t{15}) + number(static_cast<uint32_t>(packed.size())) + packed;
  }
  Bytes file(const Bytes& elements) const {
    Bytes header = "MATLAB 5.0 MAT-file, made by a test";
    header.resize(124, ' ');
    return header + number(uint16_t{0x0100}) + (is_big_endian_ ? "MI" : "IM") + elements;
  }

 private:
  const bool is_big_endian_;
};

struct TestSynset {
  int id;
  std::string wnid;
  std::string words;
};

inline Bytes synsets_matrix(const MatWriter& mat, const std::vector<TestSynset>& synsets) {
  std::vector<Bytes> values;
  for (const auto& [id, wnid, words] : synsets) {
    values.push_back(id % 2 == 0 ? mat.number_matrix(id)
                                 : mat.short_matrix(static_cast<uint16_t>(id)));
    values.push_back(mat.text_matrix(wnid));
    values.push_back(mat.text_matrix(words));
    values.push_back(mat.matrix(6, {0, 0}, "", mat.element(9, "")));  // children
  }
  return mat.structs("synsets", static_cast<int32_t>(synsets.size()),
                     {"ILSVRC2012_ID", "WNID", "words", "children"}, values);
}

}  // namespace tern
