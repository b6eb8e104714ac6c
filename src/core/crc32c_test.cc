#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace tern {
namespace {

// Deterministic bytes without a pattern that lanes could hide behind.
Bytes noise(size_t count) {
  Bytes bytes(count, '\0');
  uint64_t state = 0x9E3779B97F4A7C15U;
  for (char& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<char>(state >> 32);
  }
  return bytes;
}

// Bit by bit, as the definition has it.
uint32_t by_definition(BytesView bytes) {
  uint32_t state = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    state ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return ~state;
}

void expect_both(BytesView bytes, uint32_t expected) {
  EXPECT_EQ(crc32c(bytes), expected);
  EXPECT_EQ(crc32c_by_table(bytes), expected);
}

TEST(Crc32c, GivesThePublishedValues) {
  Bytes rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  const Bytes falling(rising.rbegin(), rising.rend());
  // RFC 3720, appendix B.4. It lists the bytes in the order they are sent, lowest first.
  expect_both(Bytes(32, '\0'), 0x8A9136AA);
  expect_both(Bytes(32, '\xFF'), 0x62A8AB43);
  expect_both(rising, 0x46DD794E);
  expect_both(falling, 0x113FDB5C);
  const unsigned char read_command[48] = {
      0x01, 0xC0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
      0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  expect_both(BytesView(reinterpret_cast<const char*>(read_command), 48), 0xD9963A56);
  expect_both("123456789", 0xE3069283);
  expect_both("", 0);
}

TEST(Crc32c, BothWaysAgreeAtEveryLengthAndAlignment) {
  if (!crc32c_has_instruction()) GTEST_SKIP() << "this CPU has no CRC-32C instruction";
  const Bytes bytes = noise(2600);  // past three short lanes, three times
  for (size_t offset = 0; offset < 8; ++offset) {
    for (size_t length = 0; offset + length <= bytes.size(); ++length) {
      const BytesView part = BytesView(bytes).substr(offset, length);
      ASSERT_EQ(crc32c(part), crc32c_by_table(part)) << offset << "+" << length;
    }
  }
}

TEST(Crc32c, BothWaysAgreeAroundTheLongLanes) {
  const Bytes bytes = noise(3 * 12'288 + 800);
  for (const size_t lanes : {1U, 2U, 3U}) {
    for (size_t length = lanes * 12'288 - 9; length <= lanes * 12'288 + 777; ++length) {
      const BytesView part = BytesView(bytes).substr(bytes.size() - length);
      ASSERT_EQ(crc32c(part), crc32c_by_table(part)) << length;
    }
  }
  EXPECT_EQ(crc32c(bytes), by_definition(bytes));
}

TEST(Crc32c, PiecesGiveTheSameAsTheWhole) {
  const Bytes bytes = noise(20'000);
  const uint32_t whole = by_definition(bytes);
  for (size_t cut = 0; cut <= bytes.size(); cut += 613) {
    const BytesView head = BytesView(bytes).substr(0, cut);
    const BytesView tail = BytesView(bytes).substr(cut);
    EXPECT_EQ(crc32c(tail, crc32c(head)), whole) << cut;
    EXPECT_EQ(crc32c_by_table(tail, crc32c_by_table(head)), whole) << cut;
    EXPECT_EQ(crc32c(tail, crc32c_by_table(head)), whole) << cut;
  }
}

TEST(Crc32c, EveryFlippedBitChangesIt) {
  Bytes bytes = noise(1000);
  const uint32_t before = crc32c(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NE(crc32c(bytes), before) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace tern
