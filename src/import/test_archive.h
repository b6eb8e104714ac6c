// For tests: archives of every kind, and what a walk or a scan gives.
#pragma once

#include <bzlib.h>
#include <ctype.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "dataset/test_folder.h"
#include "import/archive.h"
#include "import/source.h"

namespace tern {

using TestFiles = std::vector<std::pair<std::string, Bytes>>;

// A ustar header with whatever it claims, its checksum right.
inline Bytes tar_header(const std::string& name, const std::string& size_octal, char type) {
  Bytes header(512, '\0');
  header.replace(0, std::min<size_t>(name.size(), 100), name.substr(0, 100));
  header.replace(100, 8, Bytes("0000644\0", 8));
  header.replace(124, size_octal.size(), size_octal);
  header.replace(136, 12, Bytes("00000000000\0", 12));
  header[156] = type;
  header.replace(257, 8, Bytes("ustar\00000", 8));
  return header;
}

// Puts the checksum right after a change.
inline Bytes tar_seal(Bytes header) {
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 8, fmt::format("{:06o}", sum) + Bytes("\0 ", 2));
  return header;
}

inline Bytes tar_member(const std::string& name, BytesView content, char type) {
  const Bytes header = tar_header(name, fmt::format("{:011o}", content.size()), type);
  return tar_seal(header) + Bytes(content) + Bytes((512 - content.size() % 512) % 512, '\0');
}

// Of kind "ustar" names are cut at 100 bytes; the others have their own ways for longer ones.
inline Bytes pack_tar(const std::string& kind, const TestFiles& files) {
  Bytes tar;
  for (const auto& [name, content] : files) {
    const bool is_plain = name.size() <= 100 && std::all_of(name.begin(), name.end(), isascii);
    if (kind == "pax" && !is_plain) {
      const std::string record = " path=" + name + "\n";
      std::string line = std::to_string(record.size() + 2) + record;  // 2 or 3 digits
      if (line.size() != record.size() + 2) line = std::to_string(record.size() + 3) + record;
      tar += tar_member("PaxHeaders/x", line, 'x');
    } else if (kind == "gnutar" && !is_plain) {
      tar += tar_member("././@LongLink", name + Bytes(1, '\0'), 'L');
    }
    tar += tar_member(name, content, '0');
  }
  return tar + Bytes(1024, '\0');
}

inline Bytes little_endian(uint64_t number, int bytes) {
  Bytes text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> 8 * i);
  return text;
}

inline Bytes deflate_bytes(BytesView content) {
  const Bytes gzip = gzip_bytes(content);
  return gzip.substr(10, gzip.size() - 18);
}

inline Bytes pack_zip(const TestFiles& files, bool is_stored) {
  Bytes zip, directory;
  for (const auto& [name, content] : files) {
    const Bytes packed = is_stored ? content : deflate_bytes(content);
    const auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                                                 static_cast<uInt>(content.size())));
    // Version, names are UTF-8, method, time, checksum, sizes, no extra field.
    const Bytes fields = little_endian(20, 2) + little_endian(0x800, 2) +
                         little_endian(is_stored ? 0 : 8, 2) + little_endian(0, 4) +
                         little_endian(crc, 4) + little_endian(uint32_t(packed.size()), 4) +
                         little_endian(uint32_t(content.size()), 4) +
                         little_endian(uint32_t(name.size()), 2) + little_endian(0, 2);
    directory += "PK\x01\x02" + little_endian(0x314, 2) + fields + little_endian(0, 6) +
                 little_endian(0100644U << 16, 4) + little_endian(uint32_t(zip.size()), 4) + name;
    zip += "PK\x03\x04" + fields + name + packed;
  }
  const auto count = static_cast<uint32_t>(files.size());
  return zip + directory + "PK\x05\x06" + little_endian(0, 4) + little_endian(count, 2) +
         little_endian(count, 2) + little_endian(uint32_t(directory.size()), 4) +
         little_endian(uint32_t(zip.size()), 4) + little_endian(0, 2);
}

inline Bytes filter_bytes(const std::string& filter, const Bytes& plain) {
  if (filter == "gz") return gzip_bytes(plain);
  Bytes packed(plain.size() + plain.size() / 50 + 10'000, '\0');
  size_t used = 0;
  if (filter == "zst")
    used = ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), 1);
  if (filter == "xz") {
    EXPECT_EQ(lzma_easy_buffer_encode(
                  1, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const uint8_t*>(plain.data()),
                  plain.size(), reinterpret_cast<uint8_t*>(packed.data()), &used, packed.size()),
              LZMA_OK);
  }
  if (filter == "bz2") {
    auto room = static_cast<unsigned>(packed.size());
    EXPECT_EQ(BZ2_bzBuffToBuffCompress(packed.data(), &room, const_cast<char*>(plain.data()),
                                       static_cast<unsigned>(plain.size()), 1, 0, 0),
              BZ_OK);
    used = room;
  }
  packed.resize(used);
  return packed;
}

// `kind` is a format and perhaps a filter: "pax", "ustar", "gnutar", "zip", "zip-stored", "pax.gz",
// "pax.bz2", "pax.xz", "pax.zst". Written out here and not by libarchive's writer: that would need
// most of libarchive and libxml2 linked in, and the reader would be judged by its own sibling.
inline Bytes pack_archive(const std::string& kind, const TestFiles& files) {
  const size_t dot = kind.find('.');
  const std::string format = kind.substr(0, dot);
  if (format.starts_with("zip")) return pack_zip(files, format == "zip-stored");
  const Bytes tar = pack_tar(format, files);
  return dot == std::string::npos ? tar : filter_bytes(kind.substr(dot + 1), tar);
}

inline Bytes read_whole(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// What a scan gave; each sample's bytes as they are read by its range or came with it.
struct Scanned {
  Status status;
  std::vector<SourceSample> samples;
  std::vector<Bytes> contents;
};

inline Scanned scan_all(Source& source) {
  Scanned scanned;
  scanned.status = source.scan([&](SourceSample sample) -> Status {
    Bytes content = sample.bytes;
    if (sample.range) {
      EXPECT_TRUE(sample.bytes.empty());
      std::ifstream stream(source.root() + "/" + sample.range->file, std::ios::binary);
      content.resize(static_cast<size_t>(sample.range->length));
      stream.seekg(sample.range->offset);
      stream.read(content.data(), sample.range->length);
      EXPECT_TRUE(stream.good()) << sample.name;
    }
    scanned.contents.push_back(std::move(content));
    scanned.samples.push_back(std::move(sample));
    return {};
  });
  return scanned;
}

inline Scanned scan_path(const std::string& path, const SourceOptions& options = {}) {
  Result<std::unique_ptr<Source>> source = open_source(path, options);
  if (!source) return Scanned{source.error()};
  return scan_all(**source);
}

// "train ants ants/1.jpg", one a sample.
inline std::vector<std::string> lines(const Scanned& scanned) {
  std::vector<std::string> result;
  for (const SourceSample& sample : scanned.samples) {
    result.push_back((sample.split == Split::train ? "train " : "test ") + sample.class_name + " " +
                     sample.name);
  }
  return result;
}

}  // namespace tern
