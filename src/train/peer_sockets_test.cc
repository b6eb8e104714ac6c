#include "train/peer_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace tern {
namespace {

// Two ends of a connection over loopback, the first of which an epoll instance watches, as Gloo's
// does.
class PeerSocketsTest : public testing::Test {
 protected:
  void connect_and_watch() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* name = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(listener, name, size), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    ASSERT_EQ(getsockname(listener, name, &size), 0);
    near_ = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(near_, name, size), 0);
    far_ = accept(listener, nullptr, nullptr);
    ASSERT_GE(far_, 0);
    epoll_ = epoll_create1(0);
    for (const int watched : {near_, listener}) {
      epoll_event event{};
      event.events = EPOLLIN;
      ASSERT_EQ(epoll_ctl(epoll_, EPOLL_CTL_ADD, watched, &event), 0);
    }
    listener_ = listener;
  }
  ~PeerSocketsTest() override {
    for (const int descriptor : {near_, far_, listener_, epoll_}) {
      if (descriptor >= 0) close(descriptor);
    }
  }

  int near_ = -1;
  int far_ = -1;
  int listener_ = -1;
  int epoll_ = -1;
};

TEST_F(PeerSocketsTest, BytesOfAConnectionAreCountedBothWays) {
  PeerSockets sockets;
  ASSERT_NO_FATAL_FAILURE(connect_and_watch());
  sockets.find(1);
  ASSERT_TRUE(sockets.bytes().has_value());
  EXPECT_EQ(sockets.bytes()->sent, 0);
  const std::string said(10'000, 'x');
  ASSERT_EQ(send(near_, said.data(), said.size(), 0), 10'000);
  ASSERT_EQ(send(far_, said.data(), 77, 0), 77);
  std::string heard(77, ' ');
  ASSERT_EQ(recv(near_, heard.data(), heard.size(), MSG_WAITALL), 77);
  EXPECT_EQ(sockets.bytes()->sent, 10'000);
  EXPECT_EQ(sockets.bytes()->received, 77);
}

TEST_F(PeerSocketsTest, AnotherNumberOfConnectionsIsNotGuessedAt) {
  PeerSockets sockets;
  EXPECT_FALSE(sockets.bytes().has_value());
  ASSERT_NO_FATAL_FAILURE(connect_and_watch());
  sockets.find(2);
  EXPECT_FALSE(sockets.bytes().has_value());
}

TEST_F(PeerSocketsTest, WhatWasThereBeforeIsSomebodyElses) {
  ASSERT_NO_FATAL_FAILURE(connect_and_watch());
  PeerSockets sockets;
  sockets.find(1);
  EXPECT_FALSE(sockets.bytes().has_value());
}

}  // namespace
}  // namespace tern
