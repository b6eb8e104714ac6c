// What a rank finds in its environment, and how it gets in.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/system_files.h"
#include "core/token.h"
#include "ranks/rank_link.h"

namespace tern {
namespace {

Result<std::string> text_of(const VariableReader& variable, const char* name) {
  const std::optional<std::string> value = variable(name);
  if (value && !value->empty()) return *value;
  return fail(Code::invalid, fmt::format("{} is not set, and a rank needs it; start ranks with "
                                         "`tern train --ranks N`",
                                         name));
}

Result<int64_t> number_of(const VariableReader& variable, const char* name) {
  ASSIGN_OR_RETURN(const std::string text, text_of(variable, name));
  const std::optional<int64_t> number = parse_whole_number(text);
  if (number && *number >= 0 && *number <= 1'000'000) return *number;
  return fail(Code::invalid, fmt::format("{} is '{}', which cannot be; start ranks with `tern "
                                         "train --ranks N`",
                                         name, text));
}

Result<Bytes> read_secret(int fd) {
  Bytes secret(kSecretBytes, '\0');
  size_t got = 0;
  while (got < secret.size()) {
    const ssize_t count = read(fd, secret.data() + got, secret.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    got += static_cast<size_t>(count);
  }
  close(fd);
  if (got == secret.size()) return secret;
  return fail(Code::invalid,
              fmt::format("{} names no pipe with the run's secret in it; start ranks "
                          "with `tern train --ranks N`",
                          kRankSecretVariable));
}

// Until `frames` has a whole one.
Result<Bytes> read_frame(int socket, FrameReader& frames, Clock& clock, Nanoseconds deadline) {
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Bytes> frame, frames.next());
    if (frame) return std::move(*frame);
    const auto left = std::chrono::ceil<Milliseconds>(deadline - clock.now());
    pollfd ready{socket, POLLIN, 0};
    if (left <= Milliseconds(0) || poll(&ready, 1, static_cast<int>(left.count())) == 0) {
      return fail(Code::unavailable, "the supervisor does not answer; is it stopped?");
    }
    std::array<char, 1024> buffer;
    const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      frames.add({buffer.data(), static_cast<size_t>(got)});
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return fail(Code::permission_denied,
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
  return fail(Code::unavailable, "the supervisor is gone; start the run again to go on");
}

Status prove(const RankSetup& setup, int socket, FrameReader& frames) {
  const Nanoseconds deadline = setup.clock->now() + setup.limit;
  ASSIGN_OR_RETURN(const Bytes first, read_frame(socket, frames, *setup.clock, deadline));
  ASSIGN_OR_RETURN(const Challenge challenge, decode_challenge(first));
  if (challenge.version != kWireVersion) {
    return fail(Code::failed_precondition,
                fmt::format("the supervisor speaks version {} of the protocol, and this rank {}; "
                            "install the same tern on all machines",
                            challenge.version, kWireVersion));
  }
  Hello hello{.who = {.machine = setup.machine, .id = setup.id, .pid = getpid()}};
  ASSIGN_OR_RETURN(hello.nonce, random_bytes(kSecretBytes));
  hello.proof = rank_proof(setup.secret, challenge.nonce, hello);
  RETURN_IF_ERROR(send_whole(socket, encode(hello)));
  ASSIGN_OR_RETURN(const Bytes answer, read_frame(socket, frames, *setup.clock, deadline));
  ASSIGN_OR_RETURN(const Bytes proof, decode_welcome(answer));
  if (!same_proof(proof, supervisor_proof(setup.secret, challenge.nonce, hello))) {
    return fail(Code::permission_denied,
                fmt::format("what listens at {} has not the run's secret; something else has taken "
                            "that port",
                            setup.address));
  }
  return {};
}

}  // namespace

bool is_supervised(const VariableReader& variable) {
  return variable(kRankAddressVariable).has_value();
}

Result<RankSetup> read_rank_setup(const VariableReader& variable) {
  RankSetup setup;
  ASSIGN_OR_RETURN(setup.address, text_of(variable, kRankAddressVariable));
  ASSIGN_OR_RETURN(setup.id, number_of(variable, kRankIdVariable));
  ASSIGN_OR_RETURN(setup.machine, number_of(variable, kRankMachineVariable));
  ASSIGN_OR_RETURN(setup.interface_address, text_of(variable, kRankInterfaceVariable));
  ASSIGN_OR_RETURN(const int64_t heartbeat_ms, number_of(variable, kRankHeartbeatVariable));
  setup.heartbeat = Milliseconds(std::max<int64_t>(1, heartbeat_ms));
  ASSIGN_OR_RETURN(const int64_t fd, number_of(variable, kRankSecretVariable));
  ASSIGN_OR_RETURN(setup.secret, read_secret(static_cast<int>(fd)));
  return setup;
}

Result<std::unique_ptr<RankLink>> RankLink::open(const RankSetup& setup) {
  TERN_CHECK(setup.clock != nullptr);
  ASSIGN_OR_RETURN(Descriptor socket, connect_to(setup.address, setup.limit));
  FrameReader frames(kFrameBytesMax);
  RETURN_IF_ERROR(prove(setup, socket.get(), frames));
  ASSIGN_OR_RETURN(Descriptor wake_up, make_wake());
  return std::unique_ptr<RankLink>(
      new RankLink(setup, std::move(socket), std::move(wake_up), std::move(frames)));
}

}  // namespace tern
