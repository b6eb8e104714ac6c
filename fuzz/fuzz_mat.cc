// MAT-files, and what ImageNet's development kit says by one.
#include <zlib.h>

#include "fuzz/fuzz.h"
#include "import/imagenet_source.h"
#include "import/mat_file.h"

namespace tern {
namespace {

constexpr size_t kHeaderBytes = 128;

// The elements behind the header as one that is compressed: its checksum would keep the fuzzer out.
Bytes compressed_again(BytesView file) {
  const BytesView plain = file.substr(kHeaderBytes);
  uLongf room = compressBound(plain.size());
  Bytes packed(room, '\0');
  TERN_CHECK(compress2(reinterpret_cast<Bytef*>(packed.data()), &room,
                       reinterpret_cast<const Bytef*>(plain.data()), plain.size(), 1) == Z_OK);
  packed.resize(room);
  const bool is_big_endian = file.substr(126, 2) == "MI";
  Bytes tag;
  for (const size_t number : {size_t{15}, packed.size()}) {
    for (unsigned i = 0; i < 4; ++i) {
      tag += static_cast<char>(number >> 8 * (is_big_endian ? 3 - i : i));
    }
  }
  return Bytes(file.substr(0, kHeaderBytes)) + tag + packed;
}

void try_mat(BytesView bytes) {
  const uint8_t choice = take_choice(bytes);
  const BytesView truth = take_part(bytes);
  const bool compress_it = (choice & 1) != 0 && bytes.size() >= kHeaderBytes;
  const Bytes file = compress_it ? compressed_again(bytes) : Bytes(bytes);
  const auto structs = read_mat_structs(file, "synsets");
  const auto labels = parse_imagenet_labels(file, truth);
  TERN_CHECK(structs.has_value() || !labels.has_value());
  if (!labels) return;
  for (const std::string& wnid : labels->val) TERN_CHECK(labels->titles.contains(wnid));
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_mat)
