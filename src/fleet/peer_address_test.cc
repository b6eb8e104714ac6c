#include "fleet/peer_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "storage/file_door.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

int port_of(const std::string& address) {
  return std::stoi(address.substr(address.rfind(':') + 1));
}

TEST(PeerAddress, IsAPortThatCanBeListenedOn) {
  const auto address = choose_peer_address("127.0.0.1");
  ASSERT_TRUE(address) << address.error().message;
  EXPECT_THAT(*address, StartsWith("127.0.0.1:2"));
  EXPECT_GE(port_of(*address), 20000);
  EXPECT_LE(port_of(*address), 29999);
  const FileDescriptor listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port_of(*address)));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(listening.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
}

TEST(PeerAddress, OfANameIsInDigits) {
  const auto address = choose_peer_address("localhost");
  ASSERT_TRUE(address) << address.error().message;
  EXPECT_THAT(*address, testing::AnyOf(StartsWith("127.0.0.1:"), StartsWith("::1:")));
}

TEST(PeerAddress, ThatIsNotTheMachinesIsRefusedWithTheNextStep) {
  // Of the block for documentation, which nobody has.
  const auto strange = choose_peer_address("192.0.2.1");
  EXPECT_EQ(strange.error().code, Code::failed_precondition);
  EXPECT_THAT(strange.error().message, HasSubstr("hosts file: interface = "));
  EXPECT_EQ(choose_peer_address("tern.invalid").error().code, Code::failed_precondition);
}

TEST(PeerAddress, OfAllNetworksIsRefused) {
  for (const char* all : {"0.0.0.0", "::"}) {
    EXPECT_EQ(choose_peer_address(all).error().code, Code::invalid) << all;
  }
}

TEST(SshConnection, NamesTheAddressAtWhichTheServerWasReached) {
  EXPECT_EQ(*server_of_ssh_connection("10.0.0.9 50022 10.0.0.4 22"), "10.0.0.4");
  for (const char* text : {"", "10.0.0.9", "10.0.0.9 50022"}) {
    EXPECT_THAT(server_of_ssh_connection(text).error().message, HasSubstr("interface = ")) << text;
  }
}

}  // namespace
}  // namespace tern
