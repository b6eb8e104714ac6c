#include "preempt/file_watcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

namespace tern {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class FileWatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "file_watcher_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  bool eventually(const std::function<bool()>& happened) {
    const Nanoseconds deadline = system_clock_.now() + 20s;
    while (!happened()) {
      if (system_clock_.now() > deadline) return false;
      system_clock_.wait_for(1ms, {});
    }
    return true;
  }

  SystemClock system_clock_;
  SimClock clock_;
  NoticeBoard board_;
  std::filesystem::path folder_;
};

TEST_F(FileWatcherTest, PostsOnceTheFileAppearsAndNotBefore) {
  const std::filesystem::path path = folder_ / "preempt.txt";
  FileWatcher watcher(board_, clock_, path);
  ASSERT_TRUE(eventually([&] { return clock_.now() >= 2s; }));  // ten looks
  EXPECT_FALSE(board_.notice().has_value());

  std::ofstream(path).put('x');
  ASSERT_TRUE(eventually([&] { return board_.notice().has_value(); }));
  EXPECT_EQ(board_.notice()->kind, NoticeKind::preempt);
  EXPECT_EQ(board_.notice()->source, "file " + path.string());
  EXPECT_GE(board_.notice()->unix_ms, 1'700'000'002'000);
}

TEST_F(FileWatcherTest, AFileThatWasThereFromTheStartCounts) {
  std::ofstream(folder_ / "preempt.txt");
  FileWatcher watcher(board_, clock_, folder_ / "preempt.txt");
  EXPECT_TRUE(eventually([&] { return board_.notice().has_value(); }));
}

TEST_F(FileWatcherTest, APathThatCannotBeLookedAtIsNoNotice) {
  std::ofstream(folder_ / "plain");
  FileWatcher watcher(board_, clock_, folder_ / "plain" / "preempt.txt");  // ENOTDIR
  ASSERT_TRUE(eventually([&] { return clock_.now() >= 2s; }));
  EXPECT_FALSE(board_.notice().has_value());
}

TEST_F(FileWatcherTest, TheDestructorDoesNotWaitForTheNextLook) {
  const Nanoseconds begin = system_clock_.now();
  for (int i = 0; i < 20; ++i) {
    FileWatcher watcher(board_, system_clock_, folder_ / "preempt.txt");
  }
  EXPECT_LT(system_clock_.now() - begin, 2s);  // 20 looks would take 4 s
}

}  // namespace
}  // namespace tern
