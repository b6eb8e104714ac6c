// What may come to MASTER_PORT: from strangers, and from programs of PyTorch's that have gone mad.
//
// The input is parts (take_part), one for each thing that happens; its first byte says what.
#include <vector>

#include "fuzz/fuzz.h"
#include "program/torch_store.h"

namespace tern {
namespace {

constexpr BytesView kHello("\x00\xce\xf7\x85\x3c", 5);

void try_torch_store(BytesView bytes) {
  const TorchStore::Limits limits{.keys = {.keys = 50, .key_bytes = 64, .all_bytes = 4'096},
                                  .queued_bytes = 2'048,
                                  .message_bytes = 8'192,
                                  .output_bytes = 1U << 16U,
                                  .connections = 8};
  TorchStore store({.limits = limits});
  std::vector<uint64_t> connections;
  Nanoseconds now{0};
  while (!bytes.empty()) {
    BytesView part = take_part(bytes);
    if (part.empty()) break;
    const auto what = static_cast<uint8_t>(part[0]);
    part.remove_prefix(1);
    now += Milliseconds(what);
    if (connections.empty() || what % 8 == 0) {
      connections.push_back(store.open(now));
      if (what % 16 == 0) store.receive(connections.back(), kHello, now);
    } else if (what % 8 == 1) {
      store.close(connections[what / 8 % connections.size()], now);
    } else if (what % 8 == 2) {
      now += std::chrono::seconds(what / 8);
      store.tick(now);
    } else if (what % 8 == 3) {
      if (Bytes* output = store.output(connections[what / 8 % connections.size()])) output->clear();
    } else {
      const uint64_t id = connections[what / 8 % connections.size()];
      store.receive(id, part, now);
      const Bytes* const output = store.output(id);
      TERN_CHECK(output == nullptr || output->size() <= limits.output_bytes);
    }
    for (const uint64_t id : store.take_condemned(now)) TERN_CHECK(store.output(id) == nullptr);
    for (const uint64_t id : connections) {
      const Bytes* const output = store.output(id);
      TERN_CHECK(output == nullptr || output->size() <= limits.output_bytes);
    }
  }
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_torch_store)
