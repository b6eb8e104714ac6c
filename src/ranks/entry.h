// How a process gets in at a supervisor's port.
#pragma once

#include <stop_token>
#include <string>

#include "core/clock.h"
#include "core/result.h"
#include "ranks/messages.h"
#include "ranks/socket.h"

namespace tern {

struct EntrySetup {
  std::string address;
  Bytes secret;
  Role role = Role::rank;
  RankIdentity who;
  Milliseconds limit{10'000};  // for connecting, and for the proofs
  Clock* clock = nullptr;
};

// A connection on which both sides have proved the secret, and what came with the proof.
struct Entry {
  Descriptor socket;
  FrameReader frames{kFrameBytesMax};
};

// Blocks. `unavailable` if nobody listens there; `aborted` if the connection was closed before the
// proof; `deadline_exceeded` if there was no answer; `cancelled` if stopped; `permission_denied`
// and `failed_precondition` for another secret and another version, which no other try will change.
Result<Entry> enter(const EntrySetup& setup, const std::stop_token& stop);

}  // namespace tern
