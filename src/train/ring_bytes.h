// What a sum over ranks costs: the bytes that Gloo's ring puts on the network.
#pragma once

#include <cstdint>

namespace tern {

// Bytes that rank `rank` of `world` gives to TCP when the ring sums a tensor of `bytes` over all.
// 2 (n - 1) / n of the tensor, and the headers of Gloo's messages: a tensor goes in segments of at
// most a megabyte, at least two for each rank, and each segment costs its sender two headers and
// its receiver one. What TCP and IP add, and what has to be sent again, is not in it.
int64_t ring_bytes(int64_t bytes, int64_t element_bytes, int64_t world, int64_t rank);

}  // namespace tern
