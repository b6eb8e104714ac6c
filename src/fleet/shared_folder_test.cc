#include "fleet/shared_folder.h"

#include <gtest/gtest.h>

#include "core/clock.h"
#include "fleet/test_folder.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

class SharedFolder : public testing::Test {
 protected:
  bool sees(const fs::path& folder, int64_t levels) {
    return sees_mark(folder, levels, "token", clock_);
  }

  TestFolder place_;
  SimClock clock_;
};

TEST_F(SharedFolder, IsKnownByAMarkInIt) {
  fs::create_directories(place_ / "a");
  fs::create_directories(place_ / "b");
  fs::create_directory_symlink(place_ / "a", place_ / "mounted");
  EXPECT_EQ(*leave_mark(place_ / "a/", "token"), 0);
  EXPECT_TRUE(sees(place_ / "mounted", 0));
  EXPECT_FALSE(sees(place_ / "b", 0));
  clear_mark(place_ / "a", 0, "token");
  EXPECT_TRUE(fs::is_empty(place_ / "a"));
}

TEST_F(SharedFolder, ThatIsNotThereYetIsKnownByTheOneAboveIt) {
  fs::create_directories(place_ / "a");
  fs::create_directory_symlink(place_ / "a", place_ / "mounted");
  EXPECT_EQ(*leave_mark(place_ / "a/runs/night", "token"), 2);
  EXPECT_TRUE(sees(place_ / "mounted/runs/night", 2));
  clear_mark(place_ / "a/runs/night", 2, "token");
  EXPECT_TRUE(fs::is_empty(place_ / "a")) << "no folder was made";
}

TEST_F(SharedFolder, ThatCannotBeWrittenToIsNamed) {
  EXPECT_FALSE(leave_mark("/proc/nowhere", "token"));
}

}  // namespace
}  // namespace tern
