// The Huffman codes of baseline JPEGs, read faster than libjpeg does. Private to jpeg_reader.cc.
//
// Two thirds of the time for a photo go into its codes. libjpeg looks up a code, then takes the
// bits of the value that follows; here one lookup mostly gives both.
#pragma once

#include <array>
#include <cstdint>

#include "image/jpeg_errors.h"

namespace tern {

// The next bits of a scan, at the top of `bits`. Passed by value, so that it stays in registers.
struct JpegBits {
  uint64_t bits = 0;
  uint64_t count = 0;

  unsigned peek(unsigned size) const { return static_cast<unsigned>(bits >> (64 - size)); }
  void drop(unsigned size) {
    bits <<= size;
    count -= size;
  }
};

// Where they come from. Behind the end, or a marker, are zeros; `missing` counts them.
struct JpegBitSource {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;
  uint64_t missing = 0;

  // 32 bits at least.
  JpegBits fill(JpegBits in);
  JpegBits fill_slowly(JpegBits in);
  bool is_overdrawn(JpegBits in) const { return in.count < missing; }
};

// What a code stands for: `run` zeros, then `value`. If kMore is set in `length`, the value's bits
// (as many as `value` says) come after the code; if nothing else is, the code itself is longer than
// what was looked at.
struct JpegCode {
  int16_t value = 0;
  uint8_t run = 0;
  uint8_t length = 0;
};

struct JpegCodeTable {
  static constexpr unsigned kLookBits = 10;
  static constexpr uint8_t kMore = 0x80;
  static constexpr uint8_t kEndRun = 100;  // the rest of the block is zeros

  JHUFF_TBL source = {};  // what it was made of
  bool is_made = false;
  std::array<JpegCode, 1U << kLookBits> codes = {};
  std::array<int, 17> last_code = {};  // by length; -1 if there is none
  std::array<int, 17> offset = {};     // from a code to its place in source.huffval

  // REQUIRES: libjpeg has accepted the table.
  void make(const JHUFF_TBL& from);
};

// What libjpeg calls: the beginning of its internal jpeg_entropy_decoder, which has been the same
// since 1995 in libjpeg-turbo's ancestors and up to 3.x. The functions and flags that follow differ
// and are not used for baseline; zeros mean that they are not there.
struct JpegEntropyHook {
  void (*start_pass)(j_decompress_ptr) = nullptr;
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*) = nullptr;
  void* others[8] = {};
};

// Owned by a reader, by one thread. Keeps its tables: most files have the standard ones.
class JpegHuffman : private JpegEntropyHook {
 public:
  // One scan, Huffman, not progressive, and libjpeg-turbo. Of no use elsewhere.
  static bool can_read(jpeg_decompress_struct& info);

  // From here on libjpeg takes its coefficients from this object, until it is aborted. Bad codes
  // and an early end make it give up. REQUIRES: info.err is a JpegErrors, its source is all in
  // memory, jpeg_start_decompress() was called, nothing was read since.
  void take_over(jpeg_decompress_struct& info);

 private:
  struct Block {
    const JpegCodeTable* dc = nullptr;
    const JpegCodeTable* ac = nullptr;
    uint32_t* last_dc = nullptr;
  };

  static boolean on_mcu(j_decompress_ptr info, JBLOCKROW* blocks);
  void restart(JpegErrors& errors);
  [[noreturn]] void fail_at(JpegBits in, JpegErrors& errors) const;

  JpegBitSource source_;
  JpegBits in_;
  int block_count_ = 0;
  std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks_;
  std::array<uint32_t, MAX_COMPS_IN_SCAN> last_dc_ = {};
  unsigned restart_mcus_ = 0;
  unsigned mcus_left_ = 0;  // until the next restart marker
  unsigned next_restart_ = 0;
  std::array<JpegCodeTable, NUM_HUFF_TBLS> dc_;
  std::array<JpegCodeTable, NUM_HUFF_TBLS> ac_;
};

}  // namespace tern
