#include "cli/find_libtorch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "cli/python_torch.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FindLibTorchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "find_libtorch_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    search_ = {.programs_folder = folder_ / "tern",
               .cache_folder = folder_ / "cache",
               .ask_python = [this] { return python_; }};
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A folder that looks like LibTorch of this version.
  static fs::path make(const fs::path& root, const std::string& version) {
    fs::create_directories(root / "lib");
    std::ofstream(root / "lib/libtorch_cpu.so");
    if (!version.empty()) {
      std::ofstream(root / "version.py")
          << "from typing import Optional\n\n__version__ = '" << version << "'\ndebug = False\n";
    }
    return root;
  }

  fs::path folder_;
  std::optional<fs::path> python_;
  LibTorchSearch search_;
};

TEST_F(FindLibTorchTest, TheGivenOneIsFoundHoweverItIsNamed) {
  const fs::path torch = make(folder_ / "site/torch", "2.11.0+cu130");
  for (const char* name :
       {"site/torch", "site", "site/torch/lib", "site/torch/", "site/torch/lib/"}) {
    search_.given = folder_ / name;
    const auto found = find_libtorch(search_);
    ASSERT_TRUE(found) << name << ": " << found.error().message;
    EXPECT_TRUE(fs::equivalent(*found, torch)) << name << ": " << *found;
  }
}

TEST_F(FindLibTorchTest, AGivenRelativeFolderBecomesAbsolute) {
  make(folder_ / "torch", "2.11.0");
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  search_.given = "torch";
  const auto found = find_libtorch(search_);
  fs::current_path(before);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_absolute());
}

TEST_F(FindLibTorchTest, AGivenOneThatDoesNotFitIsAnErrorAndNothingElseIsTried) {
  make(folder_ / "cache/libtorch-2.11.0", "2.11.0");
  search_.given = folder_ / "nothing";
  ASSERT_FALSE(find_libtorch(search_));
  EXPECT_EQ(find_libtorch(search_).error().code, Code::invalid);
  EXPECT_THAT(find_libtorch(search_).error().message, HasSubstr("holds no lib/libtorch_cpu.so"));

  for (const char* version : {"2.10.0", "2.11.1", "2.11", "12.11.0", "2.11.0.1", ""}) {
    fs::remove_all(folder_ / "other");
    search_.given = make(folder_ / "other", version);
    const auto found = find_libtorch(search_);
    ASSERT_FALSE(found) << version;
    EXPECT_EQ(found.error().code, Code::invalid);
    EXPECT_THAT(found.error().message, HasSubstr(version));
  }
}

TEST_F(FindLibTorchTest, TheArchiveOfPytorchOrgSaysItsVersionElsewhere) {
  search_.given = make(folder_ / "libtorch", "");
  std::ofstream(folder_ / "libtorch/build-version") << "2.11.0+cpu\n";
  EXPECT_TRUE(find_libtorch(search_));
}

TEST_F(FindLibTorchTest, PlacesAreTriedInOrderAndOtherVersionsPassedOver) {
  const fs::path fetched = make(folder_ / "cache/libtorch-2.11.0/torch", "2.11.0+cpu");
  EXPECT_EQ(*find_libtorch(search_), fetched);

  python_ = make(folder_ / "python/torch", "2.9.1");
  EXPECT_EQ(*find_libtorch(search_), fetched);

  python_ = make(folder_ / "python3/torch", "2.11.0+cu130");
  EXPECT_EQ(*find_libtorch(search_), *python_);

  const fs::path beside = make(folder_ / "lib/libtorch", "2.11.0");
  EXPECT_EQ(*find_libtorch(search_), beside);
  make(folder_ / "tern/libtorch", "2.10.0");
  EXPECT_EQ(*find_libtorch(search_), beside);
}

TEST_F(FindLibTorchTest, IfThereIsNoneTheErrorNamesEveryPlaceAndWhatToDo) {
  python_ = make(folder_ / "python/torch", "2.9.1+cu126");
  const auto found = find_libtorch(search_);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::not_found);
  for (const std::string& part :
       {(folder_ / "tern/libtorch: nothing there").string(),
        python_->string() + ": is version 2.9.1", (folder_ / "cache/libtorch-2.11.0").string(),
        std::string("make build"), std::string("pip install torch==2.11.0"),
        std::string("TERN_LIBTORCH")}) {
    EXPECT_THAT(found.error().message, HasSubstr(part));
  }

  python_.reset();
  search_.cache_folder.clear();
  EXPECT_THAT(find_libtorch(search_).error().message, HasSubstr("python3's torch: there is none"));
}

// Puts a script named python3 in front of the path, for what a real Python does not do.
class PythonTorchTest : public FindLibTorchTest {
 protected:
  void SetUp() override {
    FindLibTorchTest::SetUp();
    path_ = getenv("PATH");
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    FindLibTorchTest::TearDown();
  }

  void make_python(const std::string& script) {
    const fs::path python = folder_ / "python3";
    std::ofstream(python) << "#!/bin/sh\n" << script;
    fs::permissions(python, fs::perms::owner_all);
  }

  SystemClock clock_;
  std::string path_;
};

TEST_F(PythonTorchTest, TheFirstLineOfTheAnswerIsTheFolder) {
  make_python("echo /site/torch\necho more\n");
  EXPECT_EQ(find_python_torch(clock_, std::chrono::seconds(20)), fs::path("/site/torch"));
}

TEST_F(PythonTorchTest, NoAnswerIsNoTorch) {
  make_python("echo 'no module named importlib' >&2\nexit 1\n");
  EXPECT_FALSE(find_python_torch(clock_, std::chrono::seconds(20)));
  make_python("yes\n");  // without end
  EXPECT_FALSE(find_python_torch(clock_, std::chrono::seconds(20)));
}

TEST_F(PythonTorchTest, APythonThatHangsIsEndedInTime) {
  make_python("exec sleep 1000\n");
  const Nanoseconds begin = clock_.now();
  EXPECT_FALSE(find_python_torch(clock_, std::chrono::milliseconds(50)));
  EXPECT_LT(clock_.now() - begin, std::chrono::seconds(20));
}

TEST_F(PythonTorchTest, SignalsThatWeBlockAreNotBlockedInIt) {
  make_python("kill -TERM $$\necho /site/torch\n");
  sigset_t terminate;
  sigset_t before;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &terminate, &before);
  const auto torch = find_python_torch(clock_, std::chrono::seconds(20));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_FALSE(torch);
}

TEST_F(PythonTorchTest, ASignalToOurProcessGroupLeavesItAlone) {
  // The 5th field is the group, the 1st the process: a process that leads a group is in no other.
  make_python(
      "read -r pid name state parent group rest </proc/$$/stat\n[ $pid = $group ] && echo /led\n");
  EXPECT_EQ(find_python_torch(clock_, std::chrono::seconds(20)), fs::path("/led"));
}

TEST_F(PythonTorchTest, WithoutAPythonThereIsNoTorch) {
  setenv("PATH", folder_.c_str(), 1);
  EXPECT_FALSE(find_python_torch(clock_, std::chrono::seconds(20)));
}

}  // namespace
}  // namespace tern
