#include "train/ring_bytes.h"

#include <algorithm>

namespace tern {
namespace {

// Gloo's (allreduce.cc, transport/tcp/pair.cc).
constexpr int64_t kSegmentMax = 1 << 20;
constexpr int64_t kHeader = 48;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

struct Segments {
  int64_t bytes = 0;  // of the whole tensor
  int64_t count = 0;
  int64_t each = 0;  // bytes; the last ones may be shorter, or empty

  // Of the segment that lies `index` segments after the first, around the ring.
  int64_t length(int64_t index) const {
    return std::clamp<int64_t>(bytes - index % count * each, 0, each);
  }
};

}  // namespace

int64_t ring_bytes(int64_t bytes, int64_t element_bytes, int64_t world, int64_t rank) {
  if (world <= 1 || bytes <= 0) return 0;
  const int64_t largest = element_bytes * std::max<int64_t>(1, kSegmentMax / element_bytes);
  const int64_t count = round_up(std::max(divide_up(bytes, largest), 2 * world), world);
  const Segments segments{
      .bytes = bytes, .count = count, .each = round_up(divide_up(bytes, count), element_bytes)};
  const int64_t per_rank = count / world;
  int64_t sent = 0;
  // Reduce-scatter begins with the chunk of the rank after this one, all-gather with its own; what
  // it receives is always the chunk after the one that it sends. A segment that is empty is not
  // sent.
  for (const int64_t first : {(rank + 1) * per_rank, rank * per_rank}) {
    for (int64_t i = 0; i < count - per_rank; ++i) {
      const int64_t out = segments.length(first + i);
      if (out > 0) sent += out + 2 * kHeader;
      if (segments.length(first + per_rank + i) > 0) sent += kHeader;
    }
  }
  return sent;
}

}  // namespace tern
