// SHA-256: the one hash of the project. Blobs are named by it, records verified by it, data sets
// identified by it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/bytes.h"

namespace tern {

using Digest = std::array<uint8_t, 32>;

Digest sha256(BytesView bytes);

// 64 lower-case hex digits.
std::string to_hex(const Digest& digest);

// Hashes what arrives in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(BytesView bytes);
  // Length first, so that ("ab","c") and ("a","bc") differ.
  void update_field(BytesView field);
  void update_number(uint64_t number);
  // Once, last.
  Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace tern
