#include "ranks/entry.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/token.h"

namespace tern {
namespace {

constexpr char kNoAnswer[] = "the supervisor does not answer; is it stopped?";
// How soon a wait sees that it is to end.
constexpr Milliseconds kStopLook{50};

struct Wait {
  Clock& clock;
  Nanoseconds deadline;
  const std::stop_token& stop;
};

// Until `frames` has a whole one.
Result<Bytes> read_frame(int socket, FrameReader& frames, const Wait& wait) {
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Bytes> frame, frames.next());
    if (frame) return std::move(*frame);
    if (wait.stop.stop_requested()) return fail(Code::cancelled, "told to stop while waiting");
    const auto left = std::chrono::ceil<Milliseconds>(wait.deadline - wait.clock.now());
    if (left <= Milliseconds(0)) return fail(Code::deadline_exceeded, kNoAnswer);
    pollfd ready{socket, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(std::min(left, kStopLook).count())) == 0) continue;
    std::array<char, 1024> buffer;
    const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      frames.add({buffer.data(), static_cast<size_t>(got)});
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return fail(Code::aborted,
                  "the supervisor closed the connection: this process has not the run's secret, or "
                  "is of another version; start ranks with `tern train --ranks N`");
    }
  }
}

// Few enough bytes for any socket's buffer.
Status send_whole(int socket, const Bytes& bytes) {
  if (send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
      static_cast<ssize_t>(bytes.size())) {
    return {};
  }
  return fail(Code::aborted, "the supervisor is gone; start the run again to go on");
}

Status prove(const EntrySetup& setup, int socket, FrameReader& frames,
             const std::stop_token& stop) {
  const Wait wait{*setup.clock, setup.clock->now() + setup.limit, stop};
  ASSIGN_OR_RETURN(const Bytes first, read_frame(socket, frames, wait));
  ASSIGN_OR_RETURN(const Challenge challenge, decode_challenge(first));
  if (challenge.version != kWireVersion) {
    return fail(Code::failed_precondition,
                fmt::format("the supervisor speaks version {} of the protocol, and this {}; "
                            "install the same tern on all machines",
                            challenge.version, kWireVersion));
  }
  Hello hello{.role = setup.role, .who = setup.who};
  ASSIGN_OR_RETURN(hello.nonce, random_bytes(kSecretBytes));
  hello.proof = hello_proof(setup.secret, challenge.nonce, hello);
  RETURN_IF_ERROR(send_whole(socket, encode(hello)));
  ASSIGN_OR_RETURN(const Bytes answer, read_frame(socket, frames, wait));
  ASSIGN_OR_RETURN(const Bytes proof, decode_welcome(answer));
  if (!same_proof(proof, welcome_proof(setup.secret, challenge.nonce, hello))) {
    return fail(Code::permission_denied,
                fmt::format("what listens at {} has not the run's secret; something else has taken "
                            "that port",
                            setup.address));
  }
  return {};
}

}  // namespace

Result<Entry> enter(const EntrySetup& setup, const std::stop_token& stop) {
  TERN_CHECK(setup.clock != nullptr);
  Entry entry;
  ASSIGN_OR_RETURN(entry.socket, connect_to(setup.address, setup.limit));
  RETURN_IF_ERROR(prove(setup, entry.socket.get(), entry.frames, stop));
  return entry;
}

}  // namespace tern
