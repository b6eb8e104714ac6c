// Where the server listens, and what strangers get from it.
#include "ranks/kv_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "core/system_files.h"
#include "ranks/test_server.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

class KvServerTest : public ServerTest {
 protected:
  // Everything that the server sends to somebody who says `bytes`, until it closes.
  Bytes answer_to(const Bytes& bytes) {
    Result<Descriptor> socket = connect_to(server_->address(), Milliseconds(10'000));
    EXPECT_TRUE(socket);
    send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    Bytes all;
    while (true) {
      pollfd ready{socket->get(), POLLIN, 0};
      if (poll(&ready, 1, 60'000) != 1) {
        ADD_FAILURE() << "the server does not close";
        return all;
      }
      char buffer[1024];
      const ssize_t got = recv(socket->get(), buffer, sizeof buffer, 0);
      if (got <= 0) return all;
      all.append(buffer, static_cast<size_t>(got));
    }
  }
};

TEST_F(KvServerTest, ListensOnItsOneAddressOnly) {
  serve({.expected = 1});
  const std::string port = server_->address().substr(server_->address().rfind(':') + 1);
  EXPECT_EQ(server_->address(), "127.0.0.1:" + port);
  // The kernel's own list: 0100007F is 127.0.0.1.
  const std::string line = fmt::format(":{:04X} 00000000:0000 0A", std::stoi(port));
  EXPECT_THAT(read_system_file("/proc/net/tcp"), HasSubstr("0100007F" + line));
  EXPECT_THAT(read_system_file("/proc/net/tcp"), Not(HasSubstr("00000000" + line)));
  for (const std::string elsewhere : {"127.0.0.2:", "[::1]:", "::1:"}) {
    EXPECT_FALSE(connect_to(elsewhere + port, Milliseconds(2'000))) << elsewhere;
  }
}

TEST_F(KvServerTest, RefusesAddressesThatStandForAllOrAreNotOurs) {
  const auto start = [this](const std::string& address) {
    return KvServer::start({.address = address, .secret = secret_, .clock = &clock_}).error();
  };
  EXPECT_EQ(start("0.0.0.0").code, Code::invalid);
  EXPECT_EQ(start("::").code, Code::invalid);
  EXPECT_EQ(start("localhost").code, Code::invalid);
  EXPECT_EQ(start("").code, Code::invalid);
  EXPECT_EQ(start("192.0.2.1").code, Code::unavailable);
}

TEST_F(KvServerTest, AConnectionWithoutTheSecretGetsAChallengeAndIsClosed) {
  serve({.expected = 1}, {.hello = Milliseconds(200)});
  const std::unique_ptr<RankLink> good = link(0);
  ASSERT_TRUE(good->join({}, {}));
  ASSERT_TRUE(good->set("key", "what only ranks may know"));
  const size_t challenge = encode(Challenge{.nonce = Bytes(kSecretBytes, 'x')}).size();
  const std::vector<Bytes> strangers = {"", "GET / HTTP/1.1\r\n\r\n", Bytes(100'000, '\xff'),
                                        Bytes(100'000, '\0'),
                                        FrameWriter(Message::get).number(1).text("key").finish()};
  for (const Bytes& said : strangers) EXPECT_LE(answer_to(said).size(), challenge);

  RankSetup wrong = setup_of(1);
  wrong.secret[31] ^= 1;
  const auto refused = RankLink::open(wrong);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::permission_denied);
  EXPECT_THAT(refused.error().message, Not(HasSubstr("sss")));
  // Nobody else noticed.
  EXPECT_FALSE(good->generation_over().stop_requested());
  EXPECT_EQ(*good->get("key", Milliseconds(60'000)), "what only ranks may know");
}

TEST_F(KvServerTest, ARankTalksToNobodyElseWithThePort) {
  // Something that listens there and knows the protocol, but not the secret.
  const Bytes other(kSecretBytes, 'o');
  const auto impostor = KvServer::start({.secret = other, .clock = &clock_});
  ASSERT_TRUE(impostor);
  RankSetup setup{.address = (*impostor)->address(), .secret = secret_, .clock = &clock_};
  EXPECT_EQ(RankLink::open(setup).error().code, Code::permission_denied);
}

TEST_F(KvServerTest, ManyStrangersDoNotKeepRanksOut) {
  serve({.expected = 1});
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    auto socket = connect_to(server_->address(), Milliseconds(10'000));
    if (socket) strangers.push_back(std::move(*socket));
  }
  const std::unique_ptr<RankLink> good = link(0);
  ASSERT_NE(good, nullptr);
  EXPECT_TRUE(good->join({}, {}));
}

}  // namespace
}  // namespace tern
