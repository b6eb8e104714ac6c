#include "ranks/key_table.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(KeyTable, CountsAsAStoreOfPyTorchDoes) {
  KeyTable keys;
  EXPECT_EQ(*keys.add("n", 5), 5);
  EXPECT_EQ(*keys.add("n", -7), -2);
  EXPECT_EQ(*keys.find("n"), "-2");
  ASSERT_TRUE(keys.set("n", "41").has_value());
  EXPECT_EQ(*keys.add("n", 1), 42);
  EXPECT_EQ(keys.count(), 1);
}

TEST(KeyTable, WhatIsNoNumberIsNotCounted) {
  KeyTable keys;
  ASSERT_TRUE(keys.set("n", "x").has_value());
  EXPECT_EQ(keys.add("n", 1).error().code, Code::invalid);
  ASSERT_TRUE(keys.set("n", "9223372036854775807").has_value());
  EXPECT_EQ(keys.add("n", 1).error().code, Code::invalid);
  EXPECT_EQ(*keys.find("n"), "9223372036854775807");
}

TEST(KeyTable, ComparesBeforeItSets) {
  KeyTable keys;
  EXPECT_EQ(*keys.compare_set("k", "wrong", "new"), "wrong");
  EXPECT_EQ(keys.find("k"), nullptr);
  EXPECT_EQ(*keys.compare_set("k", "", "first"), "first");
  EXPECT_EQ(*keys.compare_set("k", "wrong", "new"), "first");
  EXPECT_EQ(*keys.compare_set("k", "first", "new"), "new");
  EXPECT_EQ(*keys.find("k"), "new");
}

TEST(KeyTable, RemovesAndClears) {
  KeyTable keys;
  ASSERT_TRUE(keys.set("a", "1").has_value());
  ASSERT_TRUE(keys.set("b", "2").has_value());
  EXPECT_TRUE(keys.has_all({"a", "b"}));
  EXPECT_TRUE(keys.remove("a"));
  EXPECT_FALSE(keys.remove("a"));
  EXPECT_FALSE(keys.has_all({"a", "b"}));
  EXPECT_TRUE(keys.has_all({}));
  keys.clear();
  EXPECT_EQ(keys.count(), 0);
}

TEST(KeyTable, KeepsWithinItsLimits) {
  KeyTable keys({.keys = 2, .key_bytes = 3, .all_bytes = 10});
  EXPECT_EQ(keys.set("long", "").error().code, Code::exhausted);
  ASSERT_TRUE(keys.set("a", "1234").has_value());
  ASSERT_TRUE(keys.set("b", "1234").has_value());
  EXPECT_EQ(keys.set("c", "").error().code, Code::exhausted);
  EXPECT_EQ(keys.set("a", "12345").error().code, Code::exhausted);
  EXPECT_EQ(*keys.find("a"), "1234");
  // What is taken away, or made shorter, counts no longer.
  ASSERT_TRUE(keys.set("a", "12").has_value());
  ASSERT_TRUE(keys.set("b", "123456").has_value());
  EXPECT_TRUE(keys.remove("b"));
  EXPECT_TRUE(keys.set("c", "1234567").has_value() == false);
  EXPECT_TRUE(keys.set("c", "123456").has_value());
}

}  // namespace
}  // namespace tern
