#include "dataset/open_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "dataset/test_folder.h"

namespace tern {
namespace {

using testing::HasSubstr;

constexpr int64_t kFiles = 8;
constexpr int64_t kFileBytes = 1000;

// Eight files of a thousand bytes, "0" to "7", each filled with its own digit.
class OpenFilesTest : public testing::Test {
 protected:
  OpenFilesTest() {
    for (int64_t file = 0; file < kFiles; ++file) {
      folder_.write(std::to_string(file), content(file));
    }
  }

  static Bytes content(int64_t file) {
    return Bytes(static_cast<size_t>(kFileBytes), static_cast<char>('0' + file));
  }

  OpenFiles::PathOf paths() const {
    return [this](int64_t file) -> Result<std::string> {
      return folder_.path() + "/" + std::to_string(file);
    };
  }

  Error error_of(OpenFiles& files, int64_t file, int64_t offset = 0, int64_t length = 10) {
    const Status read = files.read(file, offset, length, buffer_);
    return read ? Error{Code::internal, "it was read"} : read.error();
  }

  // Open descriptors of this process that belong to our folder.
  int64_t open_descriptors() const {
    int64_t count = 0;
    const std::string folder = std::filesystem::canonical(folder_.path()).string();
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
      if (target.starts_with(folder)) ++count;
    }
    return count;
  }

  const TestFolder folder_;
  Bytes buffer_;
};

TEST_F(OpenFilesTest, KeepsNoMoreOpenThanItsLimit) {
  OpenFiles files(paths(), 3);
  for (int64_t file = 0; file < kFiles; ++file) {
    ASSERT_TRUE(files.read(file, 5, 20, buffer_));
    EXPECT_EQ(buffer_, content(file).substr(5, 20));
    EXPECT_LE(files.open_count(), 3);
  }
  EXPECT_EQ(files.open_count(), 3);
  EXPECT_EQ(open_descriptors(), 3);
}

TEST_F(OpenFilesTest, ClosesTheLeastRecentlyUsed) {
  std::vector<int64_t> opened;
  const OpenFiles::PathOf path_of = paths();
  OpenFiles files(
      [&](int64_t file) {
        opened.push_back(file);
        return path_of(file);
      },
      2);
  for (const int64_t file : {0, 1, 0, 2, 0, 1}) ASSERT_TRUE(files.read(file, 0, 1, buffer_));
  EXPECT_EQ(opened, (std::vector<int64_t>{0, 1, 2, 1}));
}

TEST_F(OpenFilesTest, ManyThreadsShareTwoOpenFiles) {
  OpenFiles files(paths(), 2);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int64_t number = 0; number < 8; ++number) {
      threads.emplace_back([&, number] {
        Bytes buffer;
        for (int64_t i = 0; i < 2000; ++i) {
          const int64_t file = (i * 7 + number * 3) % kFiles;
          const bool is_right = files.read(file, i % 900, 100, buffer).has_value() &&
                                buffer == content(file).substr(0, 100);
          if (!is_right) ++wrong;
          if (i % 64 == 0) files.drop(file);
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(files.open_count(), 2);
  EXPECT_LE(open_descriptors(), 2);
}

TEST_F(OpenFilesTest, ReadingAnOpenFileTakesNoNewMemory) {
  OpenFiles files(paths(), 2);
  ASSERT_TRUE(files.read(0, 0, 500, buffer_));
  const char* const room = buffer_.data();
  for (int64_t length : {500, 1, 300, 500}) {
    ASSERT_TRUE(files.read(0, 0, length, buffer_));
    EXPECT_EQ(buffer_.data(), room);
    EXPECT_EQ(std::ssize(buffer_), length);
  }
}

TEST_F(OpenFilesTest, VanishedFileIsNamedWithOffsetAndNextStep) {
  folder_.remove("4");
  OpenFiles files(paths(), 2);
  const Error error = error_of(files, 4, 17);
  EXPECT_EQ(error.code, Code::not_found);
  EXPECT_THAT(error.message, HasSubstr(folder_.path() + "/4"));
  EXPECT_THAT(error.message, HasSubstr("offset 17"));
  EXPECT_THAT(error.message, HasSubstr("import the data again"));
}

TEST_F(OpenFilesTest, ReadsPastTheEndAreCorruptBeforeMemoryIsTaken) {
  OpenFiles files(paths(), 2);
  for (const auto& [offset, length] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 1001}, {1000, 1}, {1001, 0}, {999, 2}, {0, int64_t{1} << 62}, {INT64_MAX, 1}}) {
    const Error error = error_of(files, 1, offset, length);
    EXPECT_EQ(error.code, Code::corrupt) << offset << " " << length;
    EXPECT_THAT(error.message, HasSubstr("ends after 1000 bytes"));
  }
  EXPECT_TRUE(files.read(1, 1000, 0, buffer_));
  EXPECT_TRUE(files.read(1, 0, 1000, buffer_));
}

TEST_F(OpenFilesTest, FileCutWhileItIsOpenIsCorrupt) {
  OpenFiles files(paths(), 2);
  ASSERT_TRUE(files.read(2, 0, 1000, buffer_));
  ASSERT_EQ(::truncate((folder_.path() + "/2").c_str(), 600), 0);
  const Error error = error_of(files, 2, 500, 200);
  EXPECT_EQ(error.code, Code::corrupt);
  EXPECT_THAT(error.message, HasSubstr("ends after 600 bytes"));
}

TEST_F(OpenFilesTest, ReplacedFileIsReadAsItWasUntilDropped) {
  OpenFiles files(paths(), 2);
  ASSERT_TRUE(files.read(2, 0, 4, buffer_));
  std::filesystem::rename(folder_.write("new", "abcdefgh"), folder_.path() + "/2");
  ASSERT_TRUE(files.read(2, 0, 4, buffer_));
  EXPECT_EQ(buffer_, "2222");
  files.drop(2);
  ASSERT_TRUE(files.read(2, 0, 4, buffer_));
  EXPECT_EQ(buffer_, "abcd");
}

TEST_F(OpenFilesTest, PipesAndFoldersAreNotWaitedFor) {
  folder_.remove("5");
  ASSERT_EQ(::mkfifo((folder_.path() + "/5").c_str(), 0600), 0);
  folder_.remove("6");
  std::filesystem::create_directory(folder_.path() + "/6");
  OpenFiles files(paths(), 2);
  EXPECT_EQ(error_of(files, 5).code, Code::corrupt);
  EXPECT_EQ(error_of(files, 6).code, Code::corrupt);
}

TEST_F(OpenFilesTest, InterruptedAndShortReadsAreContinued) {
  int calls = 0;
  OpenFiles files(paths(), 2, [&](int fd, void* to, size_t bytes, off_t offset) -> ssize_t {
    if (++calls % 2 == 1) {
      errno = EINTR;
      return -1;
    }
    return ::pread(fd, to, std::min<size_t>(bytes, 7), offset);
  });
  folder_.write("3", varied_bytes(1000));
  ASSERT_TRUE(files.read(3, 100, 50, buffer_));
  EXPECT_EQ(buffer_, varied_bytes(1000).substr(100, 50));
}

// A file server that was restarted: the descriptor is worth nothing, the path still is.
TEST_F(OpenFilesTest, StaleFileIsOpenedAgainOnce) {
  int stale = 1;
  OpenFiles files(paths(), 2, [&](int fd, void* to, size_t bytes, off_t offset) -> ssize_t {
    if (stale > 0) {
      --stale;
      errno = ESTALE;
      return -1;
    }
    return ::pread(fd, to, bytes, offset);
  });
  ASSERT_TRUE(files.read(3, 0, 10, buffer_));
  EXPECT_EQ(buffer_, "3333333333");
  stale = 2;
  const Error error = error_of(files, 3);
  EXPECT_EQ(error.code, Code::unavailable);
  EXPECT_THAT(error.message, HasSubstr(folder_.path() + "/3"));
  EXPECT_TRUE(files.read(3, 0, 10, buffer_));
}

TEST_F(OpenFilesTest, FileThatFailedIsOpenedAnewByTheNextRead) {
  bool is_broken = true;
  OpenFiles files(paths(), 2, [&](int fd, void* to, size_t bytes, off_t offset) -> ssize_t {
    errno = EIO;
    return is_broken ? -1 : ::pread(fd, to, bytes, offset);
  });
  EXPECT_EQ(error_of(files, 3).code, Code::unavailable);
  EXPECT_EQ(files.open_count(), 0);
  is_broken = false;
  EXPECT_TRUE(files.read(3, 0, 10, buffer_));
  EXPECT_EQ(files.open_count(), 1);
}

TEST(CheckFilePath, OnlyPathsBelowTheFolderPass) {
  for (const char* good : {"a", "shards/0.shard", "a/b/c.jpg", "..a/b..", "a/...", "./a"}) {
    EXPECT_TRUE(check_file_path(good)) << good;
  }
  for (const char* bad : {"", "/", "/etc/passwd", "..", "../a", "a/..", "a/../b", "a//b", "a/"}) {
    const Status status = check_file_path(bad);
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().code, Code::corrupt) << bad;
  }
  EXPECT_FALSE(check_file_path(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace tern
