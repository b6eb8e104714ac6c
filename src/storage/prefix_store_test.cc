#include "storage/prefix_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "storage/memory_store.h"

namespace tern {
namespace {

TEST(PrefixStoreTest, RangesAreThoseBelowThePrefixInTheirOrder) {
  MemoryStore memory;
  ASSERT_TRUE(memory.put("p/a", "0123456789"));
  ASSERT_TRUE(memory.put("p/b", "abc"));
  ASSERT_TRUE(memory.put("a", "outside"));
  PrefixStore store(memory, "p");
  const std::vector<ObjectRange> ranges = {
      {"b", 1, 5}, {"../a", 0, 1}, {"a", 2, 3}, {"absent", 0, 1}, {"a", 11, 1}};
  const auto got = store.get_ranges(ranges);
  ASSERT_EQ(got.size(), 5U);
  EXPECT_EQ(got[0].value(), "bc");
  EXPECT_EQ(got[1].error().code, Code::invalid);
  EXPECT_EQ(got[2].value(), "234");
  EXPECT_EQ(got[3].error().code, Code::not_found);
  EXPECT_EQ(got[4].error().code, Code::invalid);
}

TEST(PrefixStoreTest, RemovingManyStaysBelowThePrefixAndTriesAll) {
  MemoryStore memory;
  for (const char* name : {"p/a", "p/b", "a"}) ASSERT_TRUE(memory.put(name, "x"));
  PrefixStore store(memory, "p/");
  const std::vector<std::string> names = {"../a", "a", "absent", "b"};
  EXPECT_EQ(store.remove_all(names).error().code, Code::invalid);
  EXPECT_EQ(memory.list("").value(), (std::vector<ObjectInfo>{{"a", 1}}));
}

TEST(PrefixStoreTest, MayOwnTheStoreItIsAPartOf) {
  auto memory = std::make_unique<MemoryStore>();
  ASSERT_TRUE(memory->put("p/a", "x"));
  PrefixStore store(std::move(memory), "p");
  EXPECT_EQ(store.get("a").value(), "x");
}

}  // namespace
}  // namespace tern
