#include "import/class_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ClassOrder, NamesAreSortedWhateverOrderTheyCameIn) {
  const Result<ClassOrder> order = order_classes({"cat", "ant", "bee"}, {});
  ASSERT_TRUE(order);
  EXPECT_THAT(order->names, ElementsAre("ant", "bee", "cat"));
  EXPECT_THAT(order->labels, ElementsAre(2, 0, 1));
}

TEST(ClassOrder, NumbersAreTheirOwnLabels) {
  const Result<ClassOrder> order = order_classes({"3", "10", "0"}, {});
  ASSERT_TRUE(order);
  EXPECT_THAT(order->labels, ElementsAre(3, 10, 0));
  EXPECT_THAT(order->names, ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"));
}

TEST(ClassOrder, NumbersWithZerosBeforeThemKeepTheirNames) {
  const Result<ClassOrder> order = order_classes({"02", "00"}, {});
  ASSERT_TRUE(order);
  EXPECT_THAT(order->names, ElementsAre("00", "1", "02"));
  EXPECT_THAT(order->labels, ElementsAre(2, 0));
}

TEST(ClassOrder, TwoNamesOfOneNumberAreJustNames) {
  const Result<ClassOrder> order = order_classes({"7", "07", "10"}, {});
  ASSERT_TRUE(order);
  EXPECT_THAT(order->names, ElementsAre("07", "10", "7"));
}

TEST(ClassOrder, NumbersTooLargeForLabelsAreSortedAsNumbers) {
  const Result<ClassOrder> order = order_classes({"20230101", "9"}, {});
  ASSERT_TRUE(order);
  EXPECT_THAT(order->names, ElementsAre("9", "20230101"));
  EXPECT_THAT(order->labels, ElementsAre(1, 0));
  // One more than a number of 64 bits holds: a name.
  EXPECT_THAT(order_classes({"18446744073709551616", "9"}, {})->names,
              ElementsAre("18446744073709551616", "9"));
}

TEST(ClassOrder, WhatTheSourceSaysComesFirst) {
  const Result<ClassOrder> order = order_classes({"bee", "ant"}, {"cat", "bee", "ant"});
  ASSERT_TRUE(order);
  EXPECT_THAT(order->names, ElementsAre("cat", "bee", "ant"));
  EXPECT_THAT(order->labels, ElementsAre(1, 2));
}

TEST(ClassOrder, AClassThatTheSourceDoesNotListIsNamed) {
  const Result<ClassOrder> order = order_classes({"ant", "wasp"}, {"ant"});
  ASSERT_FALSE(order);
  EXPECT_EQ(order.error().code, Code::corrupt);
  EXPECT_THAT(order.error().message, HasSubstr("'wasp'"));
}

TEST(ClassOrder, TitlesFollowTheLabelsAndMayBeMissing) {
  EXPECT_THAT(order_titles({"a", "b"}, {{"b", "Bee"}, {"x", "unknown"}}), ElementsAre("", "Bee"));
  EXPECT_THAT(order_titles({"a", "b"}, {{"x", "unknown"}}), IsEmpty());
}

}  // namespace
}  // namespace tern
