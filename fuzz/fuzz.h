// How a function of bytes becomes a libFuzzer target. Everything that the function may do on bad
// bytes is return an error; a crash, a sanitizer's complaint or a failed TERN_CHECK is a finding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// Takes the last byte away and returns it, 0 if there is none: what a fuzzer chooses beside the
// bytes themselves. At the end, so that files of the format are almost inputs as they are.
inline uint8_t take_choice(BytesView& bytes) {
  if (bytes.empty()) return 0;
  const auto choice = static_cast<uint8_t>(bytes.back());
  bytes.remove_suffix(1);
  return choice;
}

// Takes a part of the input for those that are made of several: two bytes for its length
// (little-endian), then its bytes; what is left of them where they end early.
inline BytesView take_part(BytesView& bytes) {
  if (bytes.size() < 2) return {};
  const size_t length = static_cast<uint8_t>(bytes[0]) + 256U * static_cast<uint8_t>(bytes[1]);
  const BytesView part = bytes.substr(2, length);
  bytes.remove_prefix(2 + part.size());
  return part;
}

// What an error may say to people, whatever came: short, and nothing that a terminal would obey.
inline void check_told(const Error& error) {
  TERN_CHECK(!error.message.empty() && error.message.size() < 2000);
  for (const char c : error.message) TERN_CHECK(c >= ' ' && c <= '~');
}

}  // namespace tern

#define TERN_FUZZ(function)                                                 \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    function(tern::BytesView(reinterpret_cast<const char*>(data), size));   \
    return 0;                                                               \
  }
