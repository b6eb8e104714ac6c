#include "train/kept_blocks.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace tern {
namespace {

// Before each block's bytes, so that they can be given back by their address alone.
struct Header {
  size_t bytes;  // of the block with its header
};
constexpr size_t kHeaderBytes = KeptBlocks::kAlignment;
static_assert(sizeof(Header) <= kHeaderBytes);

Header* header_of(void* data) {
  return reinterpret_cast<Header*>(static_cast<char*>(data) - kHeaderBytes);
}

void* data_of(void* block) { return static_cast<char*>(block) + kHeaderBytes; }

// nullptr if there is no memory.
void* allocate(size_t block_bytes) {
  void* block = std::aligned_alloc(KeptBlocks::kAlignment, block_bytes);
  if (block != nullptr) static_cast<Header*>(block)->bytes = block_bytes;
  return block;
}

// 0: more than an address can be.
size_t block_bytes_for(size_t bytes) {
  // Rounded, so that sizes that differ a little share blocks.
  const size_t unit = bytes >= KeptBlocks::kKeptFrom ? size_t{64} << 10 : KeptBlocks::kAlignment;
  if (bytes > SIZE_MAX / 2) return 0;
  return (bytes + kHeaderBytes + unit - 1) / unit * unit;
}

}  // namespace

KeptBlocks::~KeptBlocks() {
  const MutexLock lock(mutex_);
  free_kept_until(0);
}

void* KeptBlocks::take(size_t bytes) {
  const size_t block_bytes = block_bytes_for(bytes);
  if (bytes == 0 || block_bytes == 0) return nullptr;
  if (block_bytes < kKeptFrom) {
    void* const block = allocate(block_bytes);
    return block == nullptr ? nullptr : data_of(block);
  }
  const MutexLock lock(mutex_);
  void* block = take_kept(block_bytes);
  if (block == nullptr) {
    // What is kept in other sizes makes room, so that the whole stays near its peak. The quarter is
    // for the sizes of one moment that those of another do not fit.
    const size_t in_use = use_.in_use + block_bytes;
    const size_t most = std::max(use_.most_in_use, in_use);
    free_kept_until(most + most / 4 - in_use);
    block = allocate(block_bytes);
  }
  if (block == nullptr) {
    free_kept_until(0);
    block = allocate(block_bytes);
  }
  if (block == nullptr) return nullptr;
  use_.in_use += static_cast<Header*>(block)->bytes;
  use_.most_in_use = std::max(use_.most_in_use, use_.in_use);
  return data_of(block);
}

void KeptBlocks::give_back(void* data) {
  if (data == nullptr) return;
  Header* const header = header_of(data);
  if (header->bytes < kKeptFrom) return std::free(header);
  const MutexLock lock(mutex_);
  use_.in_use -= header->bytes;
  use_.kept += header->bytes;
  kept_.emplace(header->bytes, Kept{.block = header, .since = ++given_back_});
}

size_t KeptBlocks::bytes_of(const void* data) {
  return reinterpret_cast<const Header*>(static_cast<const char*>(data) - kHeaderBytes)->bytes;
}

void* KeptBlocks::take_kept(size_t bytes) {
  const auto found = kept_.lower_bound(bytes);
  // A much larger one would be missed by who needs it.
  if (found == kept_.end() || found->first > bytes + bytes / 8) return nullptr;
  void* const block = found->second.block;
  use_.kept -= found->first;
  kept_.erase(found);
  return block;
}

void KeptBlocks::free_kept_until(size_t kept_max) {
  const auto since = [](const auto& item) { return item.second.since; };
  while (use_.kept > kept_max) {
    const auto oldest = std::ranges::min_element(kept_, {}, since);
    use_.kept -= oldest->first;
    std::free(oldest->second.block);
    kept_.erase(oldest);
  }
}

KeptBlocks::Use KeptBlocks::use() const {
  const MutexLock lock(mutex_);
  return use_;
}

}  // namespace tern
