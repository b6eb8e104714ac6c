// Files as torch.save() writes them, byte by byte, for tests: good ones, and ones that it would
// never write.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace tern {

using TestMembers = std::vector<std::pair<std::string, Bytes>>;

inline Bytes little_endian(uint64_t number, size_t width) {
  Bytes bytes;
  for (size_t i = 0; i < width; ++i) {
    bytes += i < sizeof number ? static_cast<char>(number >> (8 * i)) : '\0';
  }
  return bytes;
}

inline uint32_t test_crc32(BytesView bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

inline Bytes test_zip(const TestMembers& members, uint64_t method = 0) {
  Bytes file;
  Bytes directory;
  for (const auto& [name, data] : members) {
    // Version, flags, method, time, date, CRC-32, both sizes, the lengths of name and extra field.
    const Bytes fields = little_endian(0, 4) + little_endian(method, 2) + little_endian(0, 4) +
                         little_endian(test_crc32(data), 4) + little_endian(data.size(), 4) +
                         little_endian(data.size(), 4) + little_endian(name.size(), 2) +
                         little_endian(0, 2);
    directory += "PK\x01\x02" + little_endian(0, 2) + fields + little_endian(0, 10) +
                 little_endian(file.size(), 4) + name;
    file += "PK\x03\x04" + fields + name + data;
  }
  const Bytes end = little_endian(0, 4) + little_endian(members.size(), 2) +
                    little_endian(members.size(), 2) + little_endian(directory.size(), 4) +
                    little_endian(file.size(), 4) + little_endian(0, 2);
  return file + directory + "PK\x05\x06" + end;
}

inline Bytes test_text(const std::string& text) {
  return "X" + little_endian(text.size(), 4) + text;
}

// Of the storage "0".
struct TestTensor {
  std::string storage_type = "FloatStorage";
  int64_t elements = 6;
  int64_t offset = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

inline Bytes test_state_dict(const std::vector<std::pair<std::string, TestTensor>>& tensors) {
  const auto number = [](int64_t value) {
    return "J" + little_endian(static_cast<uint64_t>(value), 4);
  };
  Bytes pickle =
      "\x80\x02"
      "ccollections\nOrderedDict\n)R(";
  for (const auto& [name, tensor] : tensors) {
    pickle += test_text(name) + "ctorch._utils\n_rebuild_tensor_v2\n((" + test_text("storage") +
              "ctorch\n" + tensor.storage_type + "\n" + test_text("0") + test_text("cpu") +
              number(tensor.elements) + "tQ" + number(tensor.offset);
    for (const auto* sizes : {&tensor.shape, &tensor.strides}) {
      pickle += "(";
      for (const int64_t size : *sizes) pickle += number(size);
      pickle += "t";
    }
    pickle += "\x89}tR";
  }
  return pickle + "u.";
}

inline Bytes test_torch_file(const Bytes& pickle, const TestMembers& storages) {
  TestMembers members = {{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}};
  for (const auto& [key, data] : storages) members.emplace_back("archive/data/" + key, data);
  return test_zip(members);
}

}  // namespace tern
