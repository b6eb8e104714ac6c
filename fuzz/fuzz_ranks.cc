// What may come to a supervisor's port: from strangers, and from ranks that have gone mad.
//
// The input is parts (take_part), one for each thing that happens; its first byte says what. Ranks
// have proved the secret, which a fuzzer would not guess.
#include <vector>

#include "fuzz/fuzz.h"
#include "ranks/rank_hub.h"

namespace tern {
namespace {

const Bytes kNonce(kSecretBytes, 'n');

Bytes hello(int64_t id) {
  Hello said{.nonce = kNonce, .who = {.machine = 0, .id = id, .pid = 100 + id}};
  // The last of them is another machine's supervisor.
  if (id == 3) said = {.role = Role::supervisor, .nonce = kNonce, .who = {.machine = 1}};
  said.proof = hello_proof("secret", kNonce, said);
  return encode(said);
}

void try_frames(BytesView bytes) {
  FrameReader frames(kFrameBytesMax);
  frames.add(bytes);
  for (auto frame = frames.next(); frame && *frame; frame = frames.next()) {
    // As a rank would, of a supervisor.
    if (const auto answer = decode_answer(**frame)) {
      if (answer->value) {
        if (const auto group = decode_group(*answer->value)) {
          TERN_CHECK(group->rank < group->world);
        }
      }
    }
    if (const auto word = decode_peer_word(1, **frame)) {
      for (const char c : word->event.why) TERN_CHECK(c >= ' ' && c <= '~');
      TERN_CHECK(word->state.term >= 0 && word->state.alive >= 0);
    }
    if (const auto notice = decode_notice(**frame)) {
      for (const char c : notice->source) TERN_CHECK(c >= ' ' && c <= '~');
    }
  }
}

void try_hub(BytesView bytes) {
  const RankHub::Limits limits{
      .strangers = 3, .ranks = 4, .keys_waited_for = 50, .output_bytes = 1U << 20U};
  size_t entered = 0;
  RankHub hub({.secret = "secret",
               .rules = {.expected = 2, .min = 1, .max = 3},
               .limits = limits,
               .nonce = []() -> Result<Bytes> { return kNonce; },
               .on_event =
                   [&entered](const RankEvent& event) {
                     if (event.kind == RankEvent::Kind::entered) ++entered;
                     for (const char c : event.progress.waits_for) TERN_CHECK(c >= ' ' && c <= '~');
                   },
               .machines = 2,
               .on_peer =
                   [&entered](const PeerWord& word) {
                     if (word.kind == PeerWord::Kind::came) ++entered;
                   }});
  std::vector<uint64_t> connections;
  Nanoseconds now{0};
  size_t hellos = 0;
  while (!bytes.empty()) {
    BytesView part = take_part(bytes);
    if (part.empty()) break;
    const auto what = static_cast<uint8_t>(part[0]);
    part.remove_prefix(1);
    now += Milliseconds(what);
    if (connections.empty() || what % 8 == 0) {
      connections.push_back(hub.open(now));
    } else if (what % 8 == 1) {
      connections.push_back(hub.open(now));
      hub.receive(connections.back(), hello(what / 8 % 4), now);
      ++hellos;
    } else if (what % 8 == 2) {
      hub.close(connections[what / 8 % connections.size()], now);
    } else if (what % 8 == 3) {
      now += std::chrono::seconds(what / 8);
      hub.tick(now);
    } else if (what == 0xf4) {
      hub.refuse_ranks(now);
    } else if (what == 0xfc) {
      hub.serve({.expected = 2, .min = 1, .max = 3}, now);
    } else if (what % 8 == 4) {
      if (Bytes* output = hub.output(connections[what / 8 % connections.size()])) output->clear();
    } else {
      hub.receive(connections[what / 8 % connections.size()], part, now);
    }
    hub.take_condemned(now);
  }
  TERN_CHECK(entered <= hellos);  // nobody else got in
}

void try_ranks(BytesView bytes) {
  if (take_choice(bytes) % 2 == 0) {
    try_frames(bytes);
  } else {
    try_hub(bytes);
  }
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_ranks)
