#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "core/hash.h"
#include "dataset/index_format.h"

namespace tern {
namespace {

template <typename T>
BytesView bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Returns where it begins.
uint64_t add_name(Bytes& names, const std::string& name) {
  TERN_CHECK(name.size() <= kSampleNameBytesMax);
  const uint64_t begin = names.size();
  names.append(bytes_of(static_cast<uint16_t>(name.size())));
  names.append(name);
  return begin;
}

void hash_samples(Sha256& hash, const IndexContent& content, size_t begin, size_t end) {
  hash.update_number(end - begin);
  for (size_t i = begin; i < end; ++i) {
    const IndexEntry& entry = content.entries[i];
    hash.update_field(content.names[i]);
    hash.update_number(entry.length);
    hash.update_number(entry.label);
    hash.update_number(entry.crc32c);
    hash.update_number(entry.format);
    hash.update_number(entry.width);
    hash.update_number(entry.height);
    hash.update_number(entry.channels);
  }
}

// docs/format_index.md, "The id".
Digest index_id(const IndexContent& content) {
  Sha256 hash;
  hash.update_field("tern-dataset-index-2");
  hash.update_number(content.about.classes.size());
  // As they are in the index, so that the id can be computed again from it.
  for (const std::string& name : content.about.classes) hash.update_field(as_utf8(name));
  const size_t train = static_cast<size_t>(content.train_samples);
  hash_samples(hash, content, 0, train);
  hash_samples(hash, content, train, content.entries.size());
  return hash.finish();
}

// Adds a section at the next multiple of 8.
void add_section(Bytes& index, IndexSection& section, BytesView bytes) {
  index.resize(aligned8(index.size()), '\0');
  section = {.offset = index.size(), .length = bytes.size(), .crc32c = crc32c(bytes)};
  index.append(bytes);
}

}  // namespace

Bytes encode_index(const IndexContent& content) {
  TERN_CHECK(content.names.size() == content.entries.size());
  TERN_CHECK(content.train_samples >= 0);
  TERN_CHECK(static_cast<size_t>(content.train_samples) <= content.entries.size());

  std::vector<IndexEntry> entries = content.entries;
  std::vector<IndexFileRow> files;
  Bytes names;
  for (size_t i = 0; i < entries.size(); ++i) entries[i].name = add_name(names, content.names[i]);
  for (const IndexFile& file : content.files) {
    files.push_back({add_name(names, file.path), static_cast<uint64_t>(file.size_bytes)});
  }
  const std::string about = format_about(content.about);

  IndexHeader header;
  std::copy(kIndexMagic.begin(), kIndexMagic.end(), header.magic.begin());
  header.version = kIndexVersion;
  header.id = index_id(content);
  header.samples = entries.size();
  header.train_samples = static_cast<uint64_t>(content.train_samples);
  header.files = files.size();

  const BytesView entry_bytes(reinterpret_cast<const char*>(entries.data()),
                              entries.size() * sizeof(IndexEntry));
  const BytesView file_bytes(reinterpret_cast<const char*>(files.data()),
                             files.size() * sizeof(IndexFileRow));
  Bytes index;
  index.reserve(sizeof header + entry_bytes.size() + file_bytes.size() + names.size() +
                about.size() + 8);
  index.resize(sizeof header);
  add_section(index, header.sections[kEntries], entry_bytes);
  add_section(index, header.sections[kFiles], file_bytes);
  add_section(index, header.sections[kNames], names);
  add_section(index, header.sections[kAbout], about);
  header.file_bytes = index.size();
  header.crc32c = crc32c(bytes_of(header).substr(kIndexCheckedFrom));
  std::memcpy(index.data(), &header, sizeof header);
  return index;
}

}  // namespace tern
