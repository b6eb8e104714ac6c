// An import that is killed at any instant goes on to the same bytes. Children are killed at every
// sample, before every call that changes what is on the disk, and in the middle of writes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>

#include "import/import.h"
#include "import/import_folder.h"
#include "import/test_samples.h"

namespace {

// How many more of the calls below pass before the process is killed; negative: all.
std::atomic<int64_t> calls_left = -1;

void count_call() {
  if (calls_left < 0) return;
  if (calls_left.fetch_sub(1) == 0) ::kill(::getpid(), SIGKILL);
}

}  // namespace

// In place of the C library's.
extern "C" {
int fsync(int fd) {
  count_call();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
int rename(const char* from, const char* to) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int unlink(const char* path) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int mkdir(const char* path, mode_t mode) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
ssize_t write(int fd, const void* bytes, size_t count) {
  count_call();
  return ::syscall(SYS_write, fd, bytes, count);
}
}

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr int kSamples = 16;

class ImportKillTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(import(samples_, place_ / "undisturbed"));
    expected_ = read_tree(place_ / "undisturbed");
    ASSERT_GT(expected_.size(), 4U);  // index, folder, shards
  }

  static Status import(const std::vector<SourceSample>& samples, const fs::path& destination,
                       std::function<Status(int64_t)> before = nullptr) {
    SimClock clock;
    Log log(clock, Level::error);
    MemorySource source(samples);
    source.before = std::move(before);
    const Result<ImportResult> result = import_dataset(source,
                                                       {.destination = destination,
                                                        .pack = Representation{},
                                                        .threads = 2,
                                                        .shard_bytes = 1500,
                                                        .tern_version = "1"},
                                                       log, clock, {});
    return result ? Status() : Status(result.error());
  }

  // In a child. What it ended with, as waitpid() says; 0: done.
  template <typename Work>
  static int in_child(Work work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work() ? 0 : 1);
    int ended = 0;
    EXPECT_EQ(::waitpid(child, &ended, 0), child);
    return ended;
  }
  static bool was_killed(int ended) { return WIFSIGNALED(ended); }

  // Goes on in this process, after whatever happened before.
  void expect_it_goes_on(const std::string& after) {
    const Status status = import(samples_, place_ / "dst");
    ASSERT_TRUE(status) << after << ": " << status.error().message;
    EXPECT_THAT(differences(place_ / "dst", expected_), testing::IsEmpty()) << after;
    fs::remove_all(place_ / "dst");
  }

  TestPlace place_;
  const std::vector<SourceSample> samples_ = some_samples(kSamples);
  std::map<std::string, Bytes> expected_;
};

TEST_F(ImportKillTest, AtEverySample) {
  for (int64_t n = 0; n < kSamples; ++n) {
    const int ended = in_child([&] {
      return import(samples_, place_ / "dst", [n](int64_t at) {
        if (at == n) ::raise(SIGKILL);
        return Status();
      });
    });
    ASSERT_TRUE(was_killed(ended));
    expect_it_goes_on("killed at sample " + std::to_string(n));
  }
}

TEST_F(ImportKillTest, BeforeEveryCallThatChangesTheDisk) {
  int64_t n = 0;
  for (int ended = -1; ended != 0; ++n) {
    ended = in_child([&] {
      calls_left = n;
      return import(samples_, place_ / "dst");
    });
    ASSERT_TRUE(ended == 0 || was_killed(ended)) << n;
    if (ended == 0) break;
    // The last kills come when the data set is there and only the lock is left.
    if (fs::exists(place_ / "dst/dataset.tern") && !fs::exists(place_ / "dst/import.json")) {
      fs::remove(place_ / "dst/import.lock");
      EXPECT_THAT(differences(place_ / "dst", expected_), testing::IsEmpty()) << n;
      fs::remove_all(place_ / "dst");
      continue;
    }
    expect_it_goes_on("killed before call " + std::to_string(n));
  }
  EXPECT_GT(n, 20) << "the calls were not seen";
}

TEST_F(ImportKillTest, AgainAndAgain) {
  int rounds = 0;
  for (int ended = -1; ended != 0; ++rounds) {
    ASSERT_LT(rounds, 100) << "it comes no further";
    ended = in_child([&] {
      calls_left = 10;  // enough for at least one shard
      return import(samples_, place_ / "dst");
    });
    if (fs::exists(place_ / "dst/dataset.tern")) break;
  }
  EXPECT_GT(rounds, 1);
  fs::remove(place_ / "dst/import.lock");
  if (fs::exists(place_ / "dst/import.json")) return expect_it_goes_on("the last kill");
  EXPECT_THAT(differences(place_ / "dst", expected_), testing::IsEmpty());
}

TEST_F(ImportKillTest, InTheMiddleOfAWrite) {
  for (rlim_t bytes = 1; bytes < 2400; bytes = bytes * 3 / 2 + 1) {
    const int ended = in_child([&] {
      // Passing the limit is SIGXFSZ, after the bytes that still fit.
      const rlimit limit{bytes, bytes};
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      ::setrlimit(RLIMIT_FSIZE, &limit);
      return import(samples_, place_ / "dst");
    });
    ASSERT_TRUE(ended == 0 || was_killed(ended)) << bytes;
    if (ended == 0) break;
    expect_it_goes_on("cut after bytes " + std::to_string(bytes));
  }
}

TEST_F(ImportKillTest, WhatIsLeftOfUnfinishedFilesDoesNoHarm) {
  const int ended = in_child([&] {
    calls_left = 18;
    return import(samples_, place_ / "dst");
  });
  ASSERT_TRUE(was_killed(ended));
  for (const std::string name :
       {"import.json.part", "dataset.tern.part", "shards/00000.shard.part",
        "shards/00002.shard.part", "shards/00009.shard", "shards/00010.shard.part"}) {
    place_.write("dst/" + name, "torn");
  }
  expect_it_goes_on("torn files");
}

}  // namespace
}  // namespace tern
