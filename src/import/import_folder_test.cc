#include "import/import_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "import/test_samples.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

const nlohmann::json kPlan = {{"source", "this"}, {"representation", "orig"}};

TEST(FolderLock, IsHeldByOneAtATimeAlthoughItsFileGoesAway) {
  TestPlace place;
  std::atomic<int> holders = 0;
  std::atomic<int> taken = 0;
  std::atomic<bool> were_two = false;
  const auto try_often = [&] {
    for (int i = 0; i < 5000; ++i) {
      const auto lock = FolderLock::take(place / "import.lock");
      if (!lock) continue;
      // One that holds a file which is no longer there keeps nobody out.
      if (holders++ != 0 || !fs::exists(place / "import.lock")) were_two = true;
      ++taken;
      --holders;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(try_often);
  }
  EXPECT_FALSE(were_two);
  EXPECT_GT(taken, 0);
  EXPECT_THAT(read_tree(place.path()), IsEmpty());
}

TEST(FolderLock, SaysWhatToDoIfAnotherHasIt) {
  TestPlace place;
  const auto first = FolderLock::take(place / "import.lock");
  ASSERT_TRUE(first);
  const auto second = FolderLock::take(place / "import.lock");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::failed_precondition);
  EXPECT_THAT(second.error().message, HasSubstr("wait until it is done"));
}

TEST(ImportFolder, LeavesNoTraceIfNothingWasFinished) {
  TestPlace place;
  {
    const auto folder = ImportFolder::open(place / "a/b", kPlan);
    ASSERT_TRUE(folder) << folder.error().message;
    ASSERT_TRUE((*folder)->make_shards_folder());
    place.write("a/b/shards/00000.shard.part", "torn");
  }
  EXPECT_FALSE(fs::exists(place / "a/b"));
}

TEST(ImportFolder, AFolderThatWasThereStays) {
  TestPlace place;
  fs::create_directories(place / "mine");
  ASSERT_TRUE(ImportFolder::open(place / "mine", kPlan));
  EXPECT_TRUE(fs::is_directory(place / "mine"));
  EXPECT_THAT(read_tree(place / "mine"), IsEmpty());
}

TEST(ImportFolder, WhatWasFetchedIsNoForeignFile) {
  TestPlace place;
  place.write("dst/.download/cifar.tar.gz", "x");
  place.write("dst/source/cifar.tar.gz", "x");
  EXPECT_TRUE(ImportFolder::open(place / "dst", kPlan));
}

TEST(ImportFolder, AnotherPlanTakesOverWhereNothingWasFinished) {
  TestPlace place;
  place.write("dst/import.json", R"({"source": "that"})");
  place.write("dst/shards/00000.shard.part", "torn");
  const auto folder = ImportFolder::open(place / "dst", kPlan);
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ(nlohmann::json::parse(read_whole(place / "dst/import.json")), kPlan);
  EXPECT_FALSE(fs::exists(place / "dst/shards"));
}

TEST(ImportFolder, ADamagedPlanIsAnotherOne) {
  TestPlace place;
  place.write("dst/import.json", "{\"sour");
  place.write("dst/shards/00000.shard", "finished");
  const auto folder = ImportFolder::open(place / "dst", kPlan);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, Code::failed_precondition);
  EXPECT_THAT(folder.error().message, HasSubstr("source was nothing, is this"));
  EXPECT_EQ(read_whole(place / "dst/shards/00000.shard"), "finished");
  EXPECT_FALSE(fs::exists(place / "dst/import.lock"));
}

TEST(ImportFolder, RemovesOnlyItsOwnFilesFromTheShards) {
  TestPlace place;
  const auto folder = ImportFolder::open(place / "dst", kPlan);
  ASSERT_TRUE(folder);
  for (const std::string name : {"00000.shard", "00001.shard", "00001.shard.part", "00002.shard",
                                 "100000.shard", "notes.txt", "x.shard", ".shard"}) {
    place.write("dst/shards/" + name, "x");
  }
  ASSERT_TRUE((*folder)->remove_shards_from(1));
  std::vector<std::string> names;
  for (const auto& [name, bytes] : read_tree(place / "dst/shards")) names.push_back(name);
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("00000.shard", "notes.txt", "x.shard", ".shard"));
}

TEST(ImportFolder, AFileInPlaceOfTheFolderIsRefused) {
  TestPlace place;
  place.write("dst", "a file");
  EXPECT_FALSE(ImportFolder::open(place / "dst", kPlan));
  EXPECT_EQ(read_whole(place / "dst"), "a file");
}

}  // namespace
}  // namespace tern
