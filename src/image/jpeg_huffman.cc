// Figure and section numbers are those of ITU T.81.
#include "image/jpeg_huffman.h"

#include <jerror.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tern {

inline JpegBits JpegBitSource::fill(JpegBits in) {
  if (in.count >= 32) return in;
  if (end - at < 8) return fill_slowly(in);
  uint64_t next = 0;
  std::memcpy(&next, at, sizeof next);
  // A byte of ones may be a marker or have a zero stuffed behind it.
  constexpr uint64_t kLow = 0x0101010101010101;
  if (((~next - kLow) & next & (kLow << 7U)) != 0) return fill_slowly(in);
  if constexpr (std::endian::native == std::endian::little) next = __builtin_bswap64(next);
  // More bits than are counted: the next time the same ones come to the same place.
  in.bits |= next >> in.count;
  const uint64_t bytes = (63 - in.count) / 8;
  at += bytes;
  in.count += 8 * bytes;
  return in;
}

namespace {

using Code = JpegCodeTable;

// The zigzag (figure A.6), and the last place again for runs that lead beyond the block.
constexpr auto kPlaces = [] {
  std::array<uint8_t, 64 + Code::kEndRun> places{};
  places.fill(63);
  int row = 0;
  int column = 0;
  for (size_t i = 0; i < 64; ++i) {
    places[i] = static_cast<uint8_t>(row * 8 + column);
    const bool goes_up = (row + column) % 2 == 0;
    int& ahead = goes_up ? column : row;
    int& back = goes_up ? row : column;
    if (ahead == 7) {
      ++back;
    } else {
      ++ahead;
      if (back > 0) --back;
    }
  }
  return places;
}();

// Figure F.12: of the values of a size, the upper half of the codes are positive. Without a branch,
// which would go wrong every other time.
int extend(unsigned bits, unsigned size) {
  const int is_positive = static_cast<int>(bits >> (size - 1));
  return static_cast<int>(bits) + ((is_positive - 1) & (1 - (1 << size)));
}

// No zero value means "end of block", but for the run of 16 (figure F.14).
uint8_t run_of(unsigned symbol) {
  const bool ends = (symbol & 15U) == 0 && symbol != 0xF0;
  return ends ? Code::kEndRun : static_cast<uint8_t>(symbol >> 4U);
}

// For what one lookup does not give. False if there is no such code.
[[gnu::always_inline]] inline bool read_rest(JpegBits& in, const Code& table, JpegCode& code) {
  unsigned size = static_cast<unsigned>(code.value);
  unsigned length = code.length & ~unsigned{Code::kMore};
  if (length == 0) {
    length = Code::kLookBits + 1;
    while (length <= 16 && static_cast<int>(in.peek(length)) > table.last_code[length]) ++length;
    if (length > 16) return false;
    const int place = static_cast<int>(in.peek(length)) + table.offset[length];
    const unsigned symbol = table.source.huffval[place & 0xFF];
    size = symbol & 15U;
    code.run = run_of(symbol);
  }
  in.drop(length);
  code.value = 0;
  code.length = 0;
  if (size == 0) return true;
  code.value = static_cast<int16_t>(extend(in.peek(size), size));
  in.drop(size);
  return true;
}

[[gnu::always_inline]] inline bool read_code(JpegBitSource& source, JpegBits& in, const Code& table,
                                             JpegCode& code) {
  in = source.fill(in);
  code = table.codes[in.peek(Code::kLookBits)];
  if (code.length >= Code::kMore) return read_rest(in, table, code);
  in.drop(code.length);
  return true;
}

// F.2.2: a difference, then runs of zeros and values. False if a code is bad or the block overruns.
template <bool kIsKept>
[[gnu::always_inline]] inline bool read_block(JpegBitSource& source, JpegBits& in, const Code& dc,
                                              const Code& ac, uint32_t& last_dc, JCOEF* block) {
  JpegCode code;
  if (!read_code(source, in, dc, code)) return false;
  last_dc += static_cast<uint32_t>(int32_t{code.value});
  if constexpr (kIsKept) block[0] = static_cast<JCOEF>(last_dc);
  unsigned place = 1;
  while (place < 64) {
    if (!read_code(source, in, ac, code)) return false;
    place += code.run;
    // Of an end or a run of 16 the value is zero, where zeros are.
    if constexpr (kIsKept) block[kPlaces[place]] = code.value;
    ++place;
  }
  return place == 64 || place > Code::kEndRun;
}

}  // namespace

JpegBits JpegBitSource::fill_slowly(JpegBits in) {
  while (in.count <= 56) {
    const uint8_t* after = at;
    // Any number of them may precede a marker, and libjpeg takes several before a zero as one.
    while (after < end && *after == 0xFF) ++after;
    const bool is_stuffed = after > at;
    if (after == end || (is_stuffed && *after != 0)) {
      missing += 64 - in.count;
      in.count = 64;
      break;
    }
    in.bits |= uint64_t{is_stuffed ? uint8_t{0xFF} : *after} << (56 - in.count);
    in.count += 8;
    at = after + 1;
  }
  return in;
}

void JpegCodeTable::make(const JHUFF_TBL& from) {
  if (is_made && std::memcmp(from.bits, source.bits, sizeof from.bits) == 0 &&
      std::memcmp(from.huffval, source.huffval, sizeof from.huffval) == 0) {
    return;
  }
  source = from;
  is_made = true;
  codes.fill({.length = kMore});
  int code = 0;
  int place = 0;
  for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
    offset[length] = place - code;
    const int count = source.bits[length];
    for (int i = 0; i < count && length <= kLookBits; ++i) {
      const unsigned symbol = source.huffval[(place + i) & 0xFF];
      const unsigned size = symbol & 15U;
      const unsigned spare = kLookBits - length;
      const bool is_whole = size <= spare;
      JpegCode* first = codes.data() + (static_cast<size_t>(code + i) << spare);
      for (unsigned rest = 0; rest < 1U << spare; ++rest) {
        const int value = size == 0 ? 0 : extend(rest >> (is_whole ? spare - size : 0), size);
        first[rest].value = static_cast<int16_t>(is_whole ? value : static_cast<int>(size));
        first[rest].run = run_of(symbol);
        first[rest].length = static_cast<uint8_t>(is_whole ? length + size : length | kMore);
      }
    }
    code += count;
    place += count;
    last_code[length] = count > 0 ? code - 1 : -1;
  }
}

bool JpegHuffman::can_read(jpeg_decompress_struct& info) {
// What JpegEntropyHook relies on was checked in these; the library is linked statically, so the
// headers are of the code that runs.
#if LIBJPEG_TURBO_VERSION_NUMBER >= 2001000 && LIBJPEG_TURBO_VERSION_NUMBER < 2002000
  return !info.progressive_mode && !info.arith_code && !jpeg_has_multiple_scans(&info);
#else
  static_cast<void>(info);
  return false;
#endif
}

void JpegHuffman::take_over(jpeg_decompress_struct& info) {
  block_count_ = info.blocks_in_MCU;
  for (int b = 0; b < block_count_; ++b) {
    const int member = info.MCU_membership[b];
    const jpeg_component_info& component = *info.cur_comp_info[member];
    JpegCodeTable& dc = dc_[static_cast<size_t>(component.dc_tbl_no)];
    JpegCodeTable& ac = ac_[static_cast<size_t>(component.ac_tbl_no)];
    dc.make(*info.dc_huff_tbl_ptrs[component.dc_tbl_no]);
    ac.make(*info.ac_huff_tbl_ptrs[component.ac_tbl_no]);
    Block& block = blocks_[static_cast<size_t>(b)];
    block.dc = &dc;
    block.ac = &ac;
    block.last_dc = &last_dc_[static_cast<size_t>(member)];
  }
  source_ = {.at = info.src->next_input_byte,
             .end = info.src->next_input_byte + info.src->bytes_in_buffer};
  in_ = {};
  last_dc_.fill(0);
  restart_mcus_ = mcus_left_ = info.restart_interval;
  next_restart_ = 0;
  decode_mcu = on_mcu;
  info.entropy = reinterpret_cast<jpeg_entropy_decoder*>(static_cast<JpegEntropyHook*>(this));
}

boolean JpegHuffman::on_mcu(j_decompress_ptr info, JBLOCKROW* to) {
  auto& self = static_cast<JpegHuffman&>(*reinterpret_cast<JpegEntropyHook*>(info->entropy));
  auto& errors = *static_cast<JpegErrors*>(info->err);
  if (self.restart_mcus_ != 0 && self.mcus_left_-- == 0) self.restart(errors);
  JpegBits in = self.in_;
  for (int b = 0; b < self.block_count_; ++b) {
    const Block& block = self.blocks_[static_cast<size_t>(b)];
    const bool is_good =
        to != nullptr
            ? read_block<true>(self.source_, in, *block.dc, *block.ac, *block.last_dc, *to[b])
            : read_block<false>(self.source_, in, *block.dc, *block.ac, *block.last_dc, nullptr);
    if (!is_good) self.fail_at(in, errors);
  }
  if (self.source_.is_overdrawn(in)) self.fail_at(in, errors);
  self.in_ = in;
  return TRUE;
}

// E.2.4: passes over what is left before the marker, which must be the next of the eight.
void JpegHuffman::restart(JpegErrors& errors) {
  constexpr uint8_t kFirstRestart = 0xD0;
  const uint8_t* const end = source_.end;
  const uint8_t* marker = source_.at;
  for (; marker < end; ++marker) {
    marker = std::find(marker, end, 0xFF);
    while (marker < end && *marker == 0xFF) ++marker;
    if (marker == end || *marker != 0) break;
  }
  if (marker >= end) give_up(errors, "the data ends early");
  if (*marker != kFirstRestart + next_restart_) give_up(errors, "a restart marker is missing");
  source_.at = marker + 1;
  source_.missing = 0;
  in_ = {};
  next_restart_ = (next_restart_ + 1) % 8;
  mcus_left_ = restart_mcus_ - 1;
  last_dc_.fill(0);
}

void JpegHuffman::fail_at(JpegBits in, JpegErrors& errors) const {
  if (!source_.is_overdrawn(in)) give_up(errors, "the data of the picture has a bad code");
  if (source_.end - source_.at < 2) give_up(errors, "the data ends early");
  give_up(errors, "the data of the picture is cut short by a marker");
}

}  // namespace tern
