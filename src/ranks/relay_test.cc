// Bytes through a relay, over real sockets, to a hub that changes.
#include "ranks/relay.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "ranks/test_server.h"

namespace tern {
namespace {

constexpr Milliseconds kLimit{60'000};

class RelayTest : public testing::Test {
 protected:
  void SetUp() override {
    hub_ = std::move(*listen_on("127.0.0.1"));
    relay_ = std::move(*Relay::start());
    relay_->aim(hub_.address);
  }
  // The next connection that comes to the hub.
  static Descriptor accept_at(const Listening& hub) {
    pollfd ready{hub.socket.get(), POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 60'000), 1) << "nobody comes";
    return Descriptor(accept4(hub.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }
  Descriptor rank() const { return std::move(*connect_to(relay_->address(), kLimit)); }
  // So many bytes, or those until the end.
  static Bytes read(const Descriptor& from, size_t count) {
    Bytes all;
    while (all.size() < count) {
      pollfd ready{from.get(), POLLIN, 0};
      if (poll(&ready, 1, 60'000) != 1) {
        ADD_FAILURE() << "neither bytes nor an end";
        return all;
      }
      char buffer[4096];
      const ssize_t got = recv(from.get(), buffer, std::min(sizeof buffer, count - all.size()), 0);
      if (got <= 0) return all;
      all.append(buffer, static_cast<size_t>(got));
    }
    return all;
  }
  static bool is_closed(const Descriptor& end) { return read(end, 1).empty(); }
  static void say(const Descriptor& to, const Bytes& bytes) {
    EXPECT_EQ(send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  Listening hub_;
  std::unique_ptr<Relay> relay_;
};

TEST_F(RelayTest, BytesPassBothWaysAndTheEndToo) {
  Descriptor rank_end = rank();
  const Descriptor hub_end = accept_at(hub_);
  say(rank_end, "hello");
  EXPECT_EQ(read(hub_end, 5), "hello");
  say(hub_end, "welcome");
  EXPECT_EQ(read(rank_end, 7), "welcome");
  say(rank_end, "bye");
  rank_end.reset();
  EXPECT_EQ(read(hub_end, 3), "bye");
  EXPECT_TRUE(is_closed(hub_end));
}

TEST_F(RelayTest, TheLastWordsOfTheHubReachTheRank) {
  const Descriptor rank_end = rank();
  Descriptor hub_end = accept_at(hub_);
  say(hub_end, "over");
  hub_end.reset();
  EXPECT_EQ(read(rank_end, 4), "over");
  EXPECT_TRUE(is_closed(rank_end));
}

TEST_F(RelayTest, WithAnotherHubAllAreClosedAndLaterOnesGoThere) {
  const Descriptor before = rank();
  const Descriptor hub_end = accept_at(hub_);
  const Listening other = std::move(*listen_on("127.0.0.1"));
  relay_->aim(other.address);
  EXPECT_TRUE(is_closed(before));
  EXPECT_TRUE(is_closed(hub_end));
  const Descriptor after = rank();
  const Descriptor other_end = accept_at(other);
  say(after, "hello");
  EXPECT_EQ(read(other_end, 5), "hello");
}

TEST_F(RelayTest, WithoutAHubWhoeverComesIsSentAway) {
  relay_->aim("");
  EXPECT_TRUE(is_closed(rank()));
  const std::string gone = std::exchange(hub_, std::move(*listen_on("127.0.0.1"))).address;
  relay_->aim(gone);
  EXPECT_TRUE(is_closed(rank())) << "nobody listens there";
}

TEST_F(RelayTest, WhatTheHubDoesNotTakeIsNotRead) {
  const Descriptor rank_end = rank();
  const Descriptor hub_end = accept_at(hub_);
  const Bytes block(64 << 10, 'x');
  size_t sent = 0;
  // Until the relay's buffer and the kernel's are full: far below this.
  while (sent < (256U << 20U)) {
    pollfd ready{rank_end.get(), POLLOUT, 0};
    if (poll(&ready, 1, 500) != 1) break;
    const ssize_t put =
        send(rank_end.get(), block.data(), block.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) sent += static_cast<size_t>(put);
  }
  EXPECT_LT(sent, 256U << 20U);
  // Nothing of it is lost.
  EXPECT_EQ(read(hub_end, sent).size(), sent);
}

TEST_F(RelayTest, ItListensOnLoopbackAlone) {
  EXPECT_TRUE(relay_->address().starts_with("127.0.0.1:"));
}

}  // namespace
}  // namespace tern
