#include "core/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace tern {
namespace {

static_assert(std::endian::native == std::endian::little, "words are loaded as they lie");

// x^32 + ... + 1, Castagnoli's, the highest power in the lowest bit.
constexpr uint32_t kPolynomial = 0x82F63B78;

using ByteTable = std::array<uint32_t, 256>;

// tables[k][b]: what byte b becomes after k more zero bytes, so that eight bytes are looked up at
// once ("slicing by 8").
constexpr std::array<ByteTable, 8> make_slices() {
  std::array<ByteTable, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1U) != 0 ? kPolynomial : 0);
    tables[0][byte] = state;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<ByteTable, 8> kSlices = make_slices();

uint64_t load_word(const char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#ifdef __x86_64__

// The product of two polynomials modulo ours; bit 31 is x^0.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000U; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1U) != 0 ? kPolynomial : 0);
  }
  return product;
}

// Moves a checksum's state over `bytes` zero bytes: a multiplication by x^(8 * bytes), which is
// linear, so that it is four look-ups.
struct ShiftTable {
  std::array<ByteTable, 4> by_byte{};

  constexpr explicit ShiftTable(size_t bytes) {
    uint32_t power = 0x80000000U;   // x^0
    uint32_t square = 0x00800000U;  // x^8, then x^16, x^32, ...
    for (size_t rest = bytes; rest != 0; rest >>= 1) {
      if ((rest & 1U) != 0) power = multiply(power, square);
      square = multiply(square, square);
    }
    for (size_t k = 0; k < 4; ++k) {
      for (uint32_t byte = 0; byte < 256; ++byte) {
        by_byte[k][byte] = multiply(power, byte << (8 * k));
      }
    }
  }

  uint64_t operator()(uint64_t state) const {
    return by_byte[0][state & 0xFF] ^ by_byte[1][(state >> 8) & 0xFF] ^
           by_byte[2][(state >> 16) & 0xFF] ^ by_byte[3][(state >> 24) & 0xFF];
  }
};

// The instruction takes three cycles and one can begin in each, so three lanes run at once. Long
// lanes make joining them free; short ones serve what is left, and small samples.
constexpr size_t kLongLane = 4096;
constexpr size_t kShortLane = 256;
constexpr ShiftTable kLongShift(kLongLane);
constexpr ShiftTable kShortShift(kShortLane);

template <size_t lane>
__attribute__((target("sse4.2"))) uint64_t add_lanes(const char*& at, size_t& left, uint64_t state,
                                                     const ShiftTable& shift) {
  for (; left >= 3 * lane; left -= 3 * lane, at += 3 * lane) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < lane; i += 8) {
      state = _mm_crc32_u64(state, load_word(at + i));
      second = _mm_crc32_u64(second, load_word(at + lane + i));
      third = _mm_crc32_u64(third, load_word(at + 2 * lane + i));
    }
    state = shift(shift(state) ^ second) ^ third;
  }
  return state;
}

__attribute__((target("sse4.2"))) uint32_t by_instruction(BytesView bytes, uint32_t seed) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  uint64_t state = ~seed;
  state = add_lanes<kLongLane>(at, left, state, kLongShift);
  state = add_lanes<kShortLane>(at, left, state, kShortShift);
  for (; left >= 8; left -= 8, at += 8) state = _mm_crc32_u64(state, load_word(at));
  for (; left > 0; --left, ++at) {
    state = _mm_crc32_u8(static_cast<uint32_t>(state), static_cast<unsigned char>(*at));
  }
  return ~static_cast<uint32_t>(state);
}

#endif

}  // namespace

uint32_t crc32c_by_table(BytesView bytes, uint32_t seed) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  uint32_t state = ~seed;
  for (; left >= 8; left -= 8, at += 8) {
    const uint64_t word = load_word(at) ^ state;
    // Written out: a loop is not unrolled at -O2, which costs a fifth of the speed.
    state = kSlices[7][word & 0xFF] ^ kSlices[6][(word >> 8) & 0xFF] ^
            kSlices[5][(word >> 16) & 0xFF] ^ kSlices[4][(word >> 24) & 0xFF] ^
            kSlices[3][(word >> 32) & 0xFF] ^ kSlices[2][(word >> 40) & 0xFF] ^
            kSlices[1][(word >> 48) & 0xFF] ^ kSlices[0][word >> 56];
  }
  for (; left > 0; --left, ++at) {
    state = (state >> 8) ^ kSlices[0][(state ^ static_cast<unsigned char>(*at)) & 0xFF];
  }
  return ~state;
}

#ifdef __x86_64__

bool crc32c_has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }

uint32_t crc32c(BytesView bytes, uint32_t seed) {
  return crc32c_has_instruction() ? by_instruction(bytes, seed) : crc32c_by_table(bytes, seed);
}

#else

bool crc32c_has_instruction() { return false; }

uint32_t crc32c(BytesView bytes, uint32_t seed) { return crc32c_by_table(bytes, seed); }

#endif

}  // namespace tern
