#include "ranks/own_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::HasSubstr;

TEST(OwnAddress, ThoseThatMeetOnTheLoopbackStayThere) {
  for (const std::string host : {"localhost", "127.0.0.1"}) {
    const auto place = find_meeting_place(host, "");
    ASSERT_TRUE(place) << place.error().to_string();
    EXPECT_EQ(place->address, "127.0.0.1");
    EXPECT_EQ(place->own, "127.0.0.1");
  }
}

TEST(OwnAddress, AnInterfaceThatIsNamedIsTaken) {
  const auto place = find_meeting_place("192.0.2.7", "lo");
  ASSERT_TRUE(place) << place.error().to_string();
  EXPECT_EQ(place->address, "192.0.2.7");
  EXPECT_EQ(place->own, "127.0.0.1");
  EXPECT_EQ(interface_with("127.0.0.1"), "lo");
  EXPECT_EQ(interface_with("192.0.2.7"), "");
}

TEST(OwnAddress, WhatIsNotKnownIsNamed) {
  const auto no_interface = find_meeting_place("127.0.0.1", "eth77");
  ASSERT_FALSE(no_interface);
  EXPECT_EQ(no_interface.error().code, Code::not_found);
  EXPECT_THAT(no_interface.error().message, HasSubstr("eth77"));
  const auto no_name = find_meeting_place("no such name", "");
  ASSERT_FALSE(no_name);
  EXPECT_EQ(no_name.error().code, Code::not_found);
}

}  // namespace
}  // namespace tern
