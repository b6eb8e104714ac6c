// Blocks of memory that are kept for the next who asks for about as much. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "core/mutex.h"

namespace tern {

// Small blocks come from malloc and go back to it. Safe from any thread.
class KeptBlocks {
 public:
  // Below this malloc keeps memory well enough by itself.
  static constexpr size_t kKeptFrom = size_t{1} << 20;
  static constexpr size_t kAlignment = 64;  // of a cache line and of the widest instructions

  KeptBlocks() = default;
  ~KeptBlocks();
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  // Aligned; nullptr for 0 bytes, and where there is no memory, also not after giving back all that
  // is kept. What is in it is not defined.
  void* take(size_t bytes);
  // REQUIRES: of take(), or nullptr.
  void give_back(void* data);

  // Of the block, which may be a little more than was asked for. REQUIRES: of take().
  static size_t bytes_of(const void* data);

  struct Use {
    size_t in_use = 0;       // of large blocks, as are the others
    size_t most_in_use = 0;  // since the beginning
    size_t kept = 0;         // in_use + kept <= most_in_use, and a quarter more
  };
  Use use() const;

 private:
  struct Kept {
    void* block = nullptr;
    uint64_t since = 0;  // counts what was given back
  };

  void* take_kept(size_t bytes) REQUIRES(mutex_);
  // Those that were not asked for longest go first.
  void free_kept_until(size_t kept_max) REQUIRES(mutex_);

  mutable Mutex mutex_;
  Use use_ GUARDED_BY(mutex_);
  std::multimap<size_t, Kept> kept_ GUARDED_BY(mutex_);  // by size
  uint64_t given_back_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tern
