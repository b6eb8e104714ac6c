#include "cli/python_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLimit{20};
constexpr char kCount[] = "echo asked >>\"$COUNT\"\n";

// Puts a python3 in front of the path that writes down each time it is asked. It looks like pyenv's
// and has one folder to import from, site/.
class PythonMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "python_memory_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = getenv("PATH");
    fs::create_directories(folder_ / "shims");
    fs::create_directories(folder_ / "site");
    setenv("COUNT", (folder_ / "count").c_str(), 1);
    setenv("PATH", (folder_ / "shims:").string().append(path_).c_str(), 1);
    unsetenv("PYENV_ROOT");
    make_python("# pyenv\n", "/site/torch");
    let_it_cool(folder_ / "site");
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("COUNT");
    fs::remove_all(folder_);
  }

  void make_python(const std::string& whose, const std::string& torch) const {
    const fs::path python = folder_ / "shims/python3";
    std::ofstream(python) << "#!/bin/sh\n"
                          << whose << kCount << "echo '" << torch << "'\necho "
                          << (folder_ / "site").string() << "\necho .\n";
    fs::permissions(python, fs::perms::owner_all);
  }

  static void let_it_cool(const fs::path& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }

  std::optional<fs::path> recall() {
    return recall_python_torch(folder_ / "cache/tern", clock_, kLimit);
  }

  int64_t asked() const {
    std::ifstream in(folder_ / "count");
    int64_t lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
  }

  fs::path folder_;
  std::string path_;
  SystemClock clock_;
};

TEST_F(PythonMemoryTest, TheSameQuestionIsAskedOnce) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(recall(), fs::path("/site/torch"));
  EXPECT_EQ(asked(), 1);
}

TEST_F(PythonMemoryTest, ThatThereIsNoTorchIsRememberedToo) {
  make_python("# pyenv\n", "");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(recall());
  EXPECT_EQ(asked(), 1);
}

TEST_F(PythonMemoryTest, AnInstallationIsSeen) {
  EXPECT_TRUE(recall());
  fs::create_directories(folder_ / "site/torch");
  make_python("# pyenv\n", "/site/newer");
  EXPECT_EQ(recall(), fs::path("/site/newer"));
  EXPECT_EQ(asked(), 2);
}

TEST_F(PythonMemoryTest, AFolderThatHasJustChangedIsNotTrusted) {
  fs::create_directories(folder_ / "site/torch");
  EXPECT_TRUE(recall());
  EXPECT_TRUE(recall());
  EXPECT_EQ(asked(), 2);
}

TEST_F(PythonMemoryTest, AnotherPythonOrAnotherWishOfItsUserIsAnotherQuestion) {
  int64_t questions = 0;
  const auto is_another = [&] {
    EXPECT_TRUE(recall());
    EXPECT_TRUE(recall());
    return asked() == ++questions;
  };
  EXPECT_TRUE(is_another());
  make_python("# pyenv, newer\n", "/site/torch");
  EXPECT_TRUE(is_another());
  setenv("PYTHONPATH", "/elsewhere", 1);
  EXPECT_TRUE(is_another());
  unsetenv("PYTHONPATH");
  EXPECT_TRUE(is_another());
  std::ofstream(folder_ / "version") << "3.12.1\n";
  EXPECT_TRUE(is_another());
  const fs::path before = fs::current_path();
  fs::create_directories(folder_ / "project/part");
  std::ofstream(folder_ / "project/.python-version") << "3.10.2\n";
  fs::current_path(folder_ / "project/part");
  EXPECT_TRUE(is_another());
  fs::current_path(before);
}

TEST_F(PythonMemoryTest, AStrangersScriptIsAskedEachTime) {
  make_python("", "/site/torch");
  EXPECT_TRUE(recall());
  EXPECT_TRUE(recall());
  EXPECT_EQ(asked(), 2);
}

TEST_F(PythonMemoryTest, WithoutACacheFolderItIsAskedEachTime) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(recall_python_torch({}, clock_, kLimit), fs::path("/site/torch"));
  }
  EXPECT_EQ(asked(), 2);
}

TEST_F(PythonMemoryTest, ADamagedMemoryIsNoMemory) {
  EXPECT_TRUE(recall());
  for (const char* text : {"", "{", "[]", R"({"origin":{}})", "null"}) {
    std::ofstream(folder_ / "cache/tern/python-torch.json") << text;
    EXPECT_EQ(recall(), fs::path("/site/torch")) << text;
  }
  EXPECT_EQ(asked(), 6);
}

}  // namespace
}  // namespace tern
