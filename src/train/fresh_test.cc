#include "train/fresh.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "storage/disk_store.h"
#include "storage/prefix_store.h"

namespace tern {
namespace {

class Fresh : public testing::Test {
 protected:
  Fresh() {
    std::string name = testing::TempDir() + "/fresh-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    me_ = *this_process();
  }
  ~Fresh() override { std::filesystem::remove_all(folder_); }

  auto set_aside() {
    return set_old_run_aside(folder_ / "run", door_, clock_, log_, me_, {}, board_);
  }
  void make_run(const std::string& mark) {
    std::filesystem::create_directories(folder_ / "run");
    std::ofstream(folder_ / "run" / mark) << mark;
    std::ofstream(folder_ / "run" / "run.toml") << "";
  }

  std::filesystem::path folder_;
  RealFileDoor door_;
  SimClock clock_;
  Log log_{clock_, Level::error};
  NoticeBoard board_;
  Holder me_;
};

TEST_F(Fresh, NothingThereIsNothingToMove) {
  EXPECT_FALSE(set_aside()->has_value());
  std::filesystem::create_directories(folder_ / "run");
  EXPECT_FALSE(set_aside()->has_value());
}

TEST_F(Fresh, OldRunsAreKeptUnderRisingNumbers) {
  for (const char* mark : {"one", "two"}) {
    make_run(mark);
    const auto aside = set_aside();
    ASSERT_TRUE(aside.has_value()) << aside.error().to_string();
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run.1" / "one"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run.2" / "two"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Fresh, AMarkSaysWhyTheRunWasSetAside) {
  make_run("one");
  const auto aside =
      set_old_run_aside(folder_ / "run", door_, clock_, log_, me_, {}, board_, ".removed");
  ASSERT_TRUE(aside.has_value()) << aside.error().to_string();
  EXPECT_EQ(*aside, folder_ / "run.removed.1");
}

TEST_F(Fresh, WhatHasTheMarkKeepsItsName) {
  make_run("one");
  std::filesystem::rename(folder_ / "run", folder_ / "run.removed.7");
  const auto aside = set_old_run_aside(folder_ / "run.removed.7", door_, clock_, log_, me_, {},
                                       board_, ".removed");
  ASSERT_TRUE(aside.has_value()) << aside.error().to_string();
  EXPECT_EQ(*aside, folder_ / "run.removed.7");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run.removed.7" / "one"));
  EXPECT_FALSE(has_aside_mark("run.removed", ".removed"));
  EXPECT_FALSE(has_aside_mark("run.removed.1x", ".removed"));
  EXPECT_FALSE(has_aside_mark("run.1", ""));
}

TEST_F(Fresh, ALinkThatLeadsNowhereTakesItsNumber) {
  make_run("one");
  std::filesystem::create_symlink("nowhere", folder_ / "run.1");
  const auto aside = set_aside();
  ASSERT_TRUE(aside.has_value()) << aside.error().to_string();
  EXPECT_EQ(*aside, folder_ / "run.2");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "run.1"));
}

TEST_F(Fresh, ARunThatCannotBeMovedIsGivenBack) {
  make_run("one");
  const std::filesystem::path longest = folder_ / std::string(255, 'n');  // no room for ".1"
  std::filesystem::rename(folder_ / "run", longest);
  const auto aside = set_old_run_aside(longest, door_, clock_, log_, me_, {}, board_);
  ASSERT_FALSE(aside.has_value());
  EXPECT_EQ(aside.error().code, Code::permission_denied);
  auto store = DiskStore::open(longest, door_);
  PrefixStore checkpoints(**store, "checkpoints");
  const auto newest = newest_record(checkpoints);
  ASSERT_TRUE(newest.has_value() && newest->record);
  EXPECT_EQ(newest->record->kind, RecordKind::release);
}

TEST_F(Fresh, AFolderThatHoldsNoRunIsLeftAlone) {
  std::filesystem::create_directories(folder_ / "run");
  std::ofstream(folder_ / "run" / "thesis.tex") << "x";
  const auto aside = set_aside();
  ASSERT_FALSE(aside.has_value());
  EXPECT_EQ(aside.error().code, Code::failed_precondition);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / "thesis.tex"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "checkpoints"));
}

TEST_F(Fresh, TheOldRunIsFreeToBeTakenWhereItIsNow) {
  make_run("one");
  ASSERT_TRUE(set_aside().has_value());
  auto store = DiskStore::open(folder_ / "run.1", door_);
  PrefixStore checkpoints(**store, "checkpoints");
  Holder other = me_;
  other.token = "another";
  other.boot_id = "of another machine";
  EXPECT_TRUE(
      Sequence::take({.store = &checkpoints, .clock = &clock_, .me = other}, std::stop_token())
          .has_value());
  EXPECT_EQ(clock_.now(), Nanoseconds(0)) << "it had to wait";
}

TEST_F(Fresh, ALiveRunIsNotMovedAway) {
  make_run("mark");
  auto store = DiskStore::open(folder_ / "run", door_);
  PrefixStore checkpoints(**store, "checkpoints");
  Holder other = me_;
  other.token = "another process, alive as this one is";
  auto held =
      Sequence::take({.store = &checkpoints, .clock = &clock_, .me = other}, std::stop_token());
  ASSERT_TRUE(held.has_value());
  const auto aside = set_aside();
  ASSERT_FALSE(aside.has_value());
  EXPECT_EQ(aside.error().code, Code::failed_precondition);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / "mark"));
}

}  // namespace
}  // namespace tern
