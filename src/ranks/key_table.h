// The keys of a rendezvous, as c10d::Store knows them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// In memory, of one thread. `exhausted` where a limit would be passed, and nothing is changed then.
class KeyTable {
 public:
  struct Limits {
    size_t keys = 64 << 10;
    size_t key_bytes = 1 << 10;
    size_t all_bytes = 16 << 20;  // keys and values
  };
  KeyTable() = default;
  explicit KeyTable(const Limits& limits) : limits_(limits) {}

  Status set(BytesView key, BytesView value);
  // To the end of the value, which is empty if there is none yet.
  Status append(BytesView key, BytesView more);
  // Nothing if there is no such key.
  const Bytes* find(BytesView key) const;
  // The value is a number in decimal, 0 if there is none yet; `invalid` if it is something else.
  Result<int64_t> add(BytesView key, int64_t amount);
  // Sets `desired` if the value is `expected`, or if there is none and `expected` is empty. The
  // value after that; `expected` if there is none.
  Result<Bytes> compare_set(BytesView key, BytesView expected, BytesView desired);
  bool remove(BytesView key);
  void clear();

  bool has_all(const std::vector<Bytes>& keys) const;
  std::vector<Bytes> names() const;
  int64_t count() const { return static_cast<int64_t>(values_.size()); }

 private:
  // The value of a key that is to have so many bytes, counted already.
  Result<Bytes*> make_room(BytesView key, size_t value_bytes);

  const Limits limits_;
  std::map<Bytes, Bytes, std::less<>> values_;
  size_t bytes_ = 0;
};

}  // namespace tern
