// Opening an index, and everything that can be asked of one that opens.
#include <cstring>
#include <string>

#include "core/crc32c.h"
#include "dataset/index_format.h"
#include "fuzz/fuzz.h"

namespace tern {
namespace {

// Under checksums that are right, which is what a fuzzer would not find. With `stretch` the last
// section ends where the bytes end, so that it can grow.
Bytes signed_again(BytesView bytes, bool stretch) {
  Bytes index(bytes);
  IndexHeader header;
  if (index.size() < sizeof header) return index;
  std::memcpy(&header, index.data(), sizeof header);
  if (stretch) {
    header.file_bytes = index.size();
    IndexSection& last = header.sections.back();
    if (last.offset <= index.size()) last.length = index.size() - last.offset;
  }
  for (IndexSection& section : header.sections) {
    if (section.offset > index.size() || section.length > index.size() - section.offset) continue;
    section.crc32c = crc32c(BytesView(index).substr(section.offset, section.length));
  }
  header.crc32c = crc32c(
      BytesView(reinterpret_cast<const char*>(&header), sizeof header).substr(kIndexCheckedFrom));
  std::memcpy(index.data(), &header, sizeof header);
  return index;
}

void try_index(BytesView bytes) {
  const uint8_t choice = take_choice(bytes);
  const auto opened = DatasetIndex::from_bytes(
      (choice & 1) != 0 ? signed_again(bytes, (choice & 2) != 0) : Bytes(bytes), "fuzz");
  if (!opened) return;
  const DatasetIndex& index = **opened;
  TERN_CHECK(index.id(Split::train).size() == 64);
  TERN_CHECK(index.count(Split::train) + index.count(Split::test) == index.samples());
  for (int64_t i = 0; i < index.samples(); ++i) {
    const IndexEntry& entry = index.entry(i);
    TERN_CHECK(index.name(i).size() <= kSampleNameBytesMax && entry.label < index.classes());
    TERN_CHECK(entry.file < index.files());
    const auto file_bytes = static_cast<uint64_t>(index.file_bytes(entry.file));
    TERN_CHECK(entry.offset <= file_bytes && entry.length <= file_bytes - entry.offset);
    TERN_CHECK(entry.info().size.pixels() >= 1 && entry.info().size.pixels() <= kImagePixelsMax);
  }
  for (int64_t i = 0; i < index.files(); ++i) {
    TERN_CHECK(!index.file_path(i).empty() && index.file_path(i).front() != '/');
  }
  // What was understood can be written, and is understood again.
  const Result<About> again = parse_about(format_about(index.about()));
  TERN_CHECK(again.has_value() && *again == index.about());
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_index)
