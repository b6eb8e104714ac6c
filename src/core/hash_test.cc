#include "core/hash.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tern {
namespace {

// The vectors of FIPS 180-4's examples.
constexpr char kOfEmpty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kOfMillion[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

std::string hash_fields(std::initializer_list<BytesView> fields) {
  Sha256 hash;
  for (const BytesView field : fields) hash.update_field(field);
  return to_hex(hash.finish());
}

TEST(Sha256, MatchesTheStandardsVectors) {
  EXPECT_EQ(to_hex(sha256("")), kOfEmpty);
  EXPECT_EQ(to_hex(sha256("abc")), kOfAbc);
  EXPECT_EQ(to_hex(sha256(Bytes(1'000'000, 'a'))), kOfMillion);
}

TEST(Sha256, PiecesOfAnySizeGiveTheSameHash) {
  // 64 is the block size: pieces around it take every path through the buffer.
  for (const size_t piece : {1u, 63u, 64u, 65u, 1000u, 999'999u}) {
    const Bytes letters(piece, 'a');
    Sha256 hash;
    for (size_t left = 1'000'000; left > 0; left -= std::min(left, piece)) {
      hash.update(BytesView(letters).substr(0, std::min(left, piece)));
    }
    EXPECT_EQ(to_hex(hash.finish()), kOfMillion) << "pieces of " << piece;
  }
}

TEST(Sha256, BytesThatAreNoTextCount) {
  EXPECT_NE(sha256(BytesView("a\0b", 3)), sha256(BytesView("a\0c", 3)));
  EXPECT_EQ(to_hex(sha256(BytesView("\0", 1))),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
}

TEST(Sha256, FieldsAreUnambiguous) {
  EXPECT_NE(hash_fields({"ab", "c"}), hash_fields({"a", "bc"}));
  EXPECT_NE(hash_fields({"abc"}), hash_fields({"abc", ""}));
  EXPECT_NE(hash_fields({"", "abc"}), hash_fields({"abc", ""}));
  EXPECT_EQ(hash_fields({"ab", "c"}), hash_fields({"ab", "c"}));
}

TEST(Sha256, NumbersAreEightBytesLittleEndian) {
  // Data set ids rest on it, on every machine.
  Sha256 hash;
  hash.update_number(0x0102030405060708);
  EXPECT_EQ(hash.finish(), sha256("\x08\x07\x06\x05\x04\x03\x02\x01"));

  Sha256 with_field;
  with_field.update_field("abc");
  EXPECT_EQ(with_field.finish(), sha256(BytesView("\3\0\0\0\0\0\0\0abc", 11)));
}

}  // namespace
}  // namespace tern
