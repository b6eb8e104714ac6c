#include "dataset/staged_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "dataset/test_index.h"
#include "dataset/test_staging.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kBlock = 64;  // a file has 492 bytes: eight blocks

class StagedFilesTest : public testing::Test {
 protected:
  StagedFilesTest() { set_.write_files(source_); }

  // One thread, small blocks; `on_copy` sees each block that is copied.
  StageSetup setup(ScriptedSource::OnCopy on_copy = {}) {
    StageSetup setup{.source = std::make_unique<ScriptedSource>(
                         open_folder_files(source_.path(), *index_), std::move(on_copy)),
                     .index = index_.get(),
                     .folder = stage_.path(),
                     .threads = 1,
                     .block_bytes = kBlock};
    events_.listen(setup);
    return setup;
  }

  std::unique_ptr<SampleFiles> start(StageSetup setup) {
    return std::move(stage_files(std::move(setup))).value();
  }
  std::unique_ptr<SampleFiles> start(ScriptedSource::OnCopy on_copy = {}) {
    return start(setup(std::move(on_copy)));
  }

  std::string copy_path(int64_t file) const {
    return in_stage(index_->id().substr(0, 16) + "/" + std::string(index_->file_path(file)));
  }
  std::string in_stage(const std::string& inside) const { return stage_.path() + "/" + inside; }

  static Bytes bytes_of(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  const Bytes& original(int64_t file) const {
    return set_.files.at(std::string(index_->file_path(file)));
  }

  // The first sample of a file, and whether it is right.
  bool read_first(const SampleFiles& files, int64_t file) {
    const IndexEntry& entry = index_->entry(file * 20);
    Bytes buffer;
    const Status read = files.read(file, static_cast<int64_t>(entry.offset), entry.length, buffer);
    return read && buffer == set_.stored(file * 20);
  }

  int64_t files_in_stage() const {
    int64_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(stage_.path())) {
      if (entry.is_regular_file()) ++count;
    }
    return count;
  }

  const TestFolder source_;
  const TestFolder stage_;
  const TestSet set_ = make_test_set({.files = 4});
  const std::unique_ptr<DatasetIndex> index_ = set_.index();
  StageEvents events_;
};

TEST_F(StagedFilesTest, EveryFileIsCopiedAndThenReadFromTheCopy) {
  const auto files = start();
  ASSERT_TRUE(events_.wait_staged(4));
  EXPECT_THAT(events_.staged(), ElementsAre(0, 1, 2, 3));
  fs::remove_all(source_.path());
  for (int64_t file = 0; file < 4; ++file) {
    EXPECT_TRUE(read_first(*files, file));
    EXPECT_EQ(bytes_of(copy_path(file)), original(file));
    EXPECT_THAT(files->where(file), HasSubstr(copy_path(file)));
    EXPECT_THAT(files->where(file), HasSubstr(source_.path()));
  }
  EXPECT_EQ(files_in_stage(), 4);
}

TEST_F(StagedFilesTest, UntilTheCopyIsWholeTheSourceIsRead) {
  Gate gate;
  const auto files = start([&](int64_t, int64_t offset, Bytes&) -> Status {
    if (offset != 2 * kBlock) return {};
    EXPECT_TRUE(gate.wait());
    return {};
  });
  EXPECT_TRUE(read_first(*files, 0));
  EXPECT_EQ(files->where(0), source_.path() + "/shards/0.shard");
  EXPECT_FALSE(fs::exists(copy_path(0)));
  gate.open();
  EXPECT_TRUE(events_.wait_staged(4));
}

TEST_F(StagedFilesTest, WhatAReaderMissesJumpsTheQueue) {
  Gate begun;
  Gate gate;
  const auto files = start([&](int64_t, int64_t, Bytes&) -> Status {
    begun.open();
    EXPECT_TRUE(gate.wait());
    return {};
  });
  ASSERT_TRUE(begun.wait());
  EXPECT_TRUE(read_first(*files, 3));
  EXPECT_TRUE(read_first(*files, 3));
  EXPECT_TRUE(read_first(*files, 2));
  gate.open();
  ASSERT_TRUE(events_.wait_staged(4));
  EXPECT_THAT(events_.staged(), ElementsAre(0, 3, 2, 1));
}

TEST_F(StagedFilesTest, FilesOutsideTheOrderAreCopiedWhenTheyAreRead) {
  StageSetup chosen = setup();
  chosen.order = {2, 0};
  const auto files = start(std::move(chosen));
  ASSERT_TRUE(events_.wait_staged(2));
  EXPECT_THAT(events_.staged(), ElementsAre(2, 0));
  EXPECT_TRUE(read_first(*files, 1));
  ASSERT_TRUE(events_.wait_staged(3));
  EXPECT_THAT(events_.staged(), ElementsAre(2, 0, 1));
}

TEST_F(StagedFilesTest, BitFlippedOnTheWayIsNotPublished) {
  std::atomic<int> copies = 0;
  const auto files = start([&](int64_t file, int64_t offset, Bytes& bytes) -> Status {
    if (file == 1 && offset == 3 * kBlock && ++copies == 1) bytes[5] ^= 0x20;
    return {};
  });
  ASSERT_TRUE(events_.wait_staged(3));
  EXPECT_THAT(events_.staged(), ElementsAre(0, 2, 3));
  EXPECT_EQ(files_in_stage(), 3);
  ASSERT_EQ(events_.failures().size(), 1u);
  const auto [file, error] = events_.failures()[0];
  EXPECT_EQ(file, 1);
  EXPECT_EQ(error.code, Code::corrupt);
  EXPECT_THAT(error.message, HasSubstr("shards/1.shard"));
  EXPECT_THAT(error.message, HasSubstr("sample 's27'"));  // byte 197 is in its eighth sample
  // It is tried again when it is next read.
  EXPECT_TRUE(read_first(*files, 1));
  ASSERT_TRUE(events_.wait_staged(4));
  EXPECT_EQ(bytes_of(copy_path(1)), original(1));
}

TEST_F(StagedFilesTest, SourceThatFailsForAWhileIsAskedAgain) {
  std::atomic<bool> is_down = true;
  const auto files = start([&](int64_t file, int64_t offset, Bytes&) -> Status {
    if (is_down && file == 2 && offset > 0) return fail(Code::unavailable, "no route to server");
    return {};
  });
  ASSERT_TRUE(events_.wait_staged(3));
  ASSERT_TRUE(events_.wait_failures(1));
  EXPECT_THAT(events_.failures()[0].second.message, HasSubstr("no route to server"));
  EXPECT_THAT(events_.failures()[0].second.message, HasSubstr("source is read instead"));
  EXPECT_EQ(files_in_stage(), 3);
  is_down = false;
  EXPECT_TRUE(read_first(*files, 2));
  ASSERT_TRUE(events_.wait_staged(4));
  EXPECT_EQ(events_.failures().size(), 1u);
}

TEST_F(StagedFilesTest, FileThatNeverVerifiesIsGivenUpAndToldOnce) {
  std::atomic<int> copies = 0;
  const auto files = start([&](int64_t file, int64_t offset, Bytes& bytes) -> Status {
    if (file != 0) return {};
    if (offset == 0) ++copies;
    bytes[10] ^= 1;
    return {};
  });
  ASSERT_TRUE(events_.wait_staged(3));
  while (copies < 3) ASSERT_TRUE(read_first(*files, 0));
  // It is asked for no more: the only thread that copies comes to another file after the third
  // time.
  ASSERT_TRUE(files->distrust(3));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(read_first(*files, 0));
  ASSERT_TRUE(read_first(*files, 3));
  ASSERT_TRUE(events_.wait_staged(4));
  EXPECT_EQ(copies, 3);
  EXPECT_FALSE(fs::exists(copy_path(0)));
  ASSERT_EQ(events_.failures().size(), 2u);
  EXPECT_EQ(events_.failures()[0].first, 0);
  EXPECT_EQ(events_.failures()[1].first, 3);
}

// Files of this process cannot grow beyond `bytes` while it lives: a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit now = before_;
    now.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(StagedFilesTest, FullDiskEndsTheCopyingAndNothingElse) {
  const TestSet set = make_test_set({.files = 3, .width = 1000, .height = 100});  // 2 MB each
  set.write_files(source_);
  const std::unique_ptr<DatasetIndex> index = set.index();
  std::atomic<int> begun = 0;
  std::unique_ptr<SampleFiles> files;
  {
    const FileSizeLimit limit(rlim_t{1} << 20);
    StageSetup full{
        .source = std::make_unique<ScriptedSource>(open_folder_files(source_.path(), *index),
                                                   [&](int64_t, int64_t offset, Bytes&) -> Status {
                                                     if (offset == 0) ++begun;
                                                     return {};
                                                   }),
        .index = index.get(),
        .folder = stage_.path(),
        .threads = 1,
        .block_bytes = 300'000};
    events_.listen(full);
    files = start(std::move(full));
    ASSERT_TRUE(events_.wait_failures(1));
  }
  Bytes buffer;
  for (int64_t i = 0; i < index->samples(); ++i) {
    const IndexEntry& entry = index->entry(i);
    ASSERT_TRUE(files->read(entry.file, static_cast<int64_t>(entry.offset), entry.length, buffer));
    EXPECT_EQ(buffer, set.stored(i));
  }
  files.reset();
  EXPECT_EQ(begun, 1);
  ASSERT_EQ(events_.failures().size(), 1u);
  EXPECT_EQ(events_.failures()[0].second.code, Code::exhausted);
  EXPECT_THAT(events_.failures()[0].second.message, HasSubstr("ulimit -f"));
  EXPECT_THAT(events_.failures()[0].second.message, HasSubstr("read from its source"));
  EXPECT_EQ(files_in_stage(), 0);
}

TEST_F(StagedFilesTest, DestructorStopsAndRemovesWhatIsHalfDone) {
  Gate begun;
  Gate gate;
  {
    const auto files = start([&](int64_t file, int64_t offset, Bytes&) -> Status {
      if (file == 1 && offset == kBlock) {
        begun.open();
        EXPECT_TRUE(gate.wait());
      }
      return {};
    });
    ASSERT_TRUE(begun.wait());
    EXPECT_TRUE(fs::exists(copy_path(1) + ".part"));
    gate.open();
  }
  // It may have finished files before it was stopped, but there is nothing in between.
  for (const auto& entry : fs::recursive_directory_iterator(stage_.path())) {
    EXPECT_NE(entry.path().extension(), ".part");
  }
}

TEST_F(StagedFilesTest, NextProcessUsesWhatIsThereWithoutTheSource) {
  start().reset();  // whatever it came to
  const size_t first = events_.staged().size();
  {
    const auto files = start();
    ASSERT_TRUE(events_.wait_staged(first + 4));
  }
  const size_t before = events_.staged().size();
  const auto files = start([](int64_t, int64_t, Bytes&) -> Status {
    return fail(Code::unavailable, "the source is gone");
  });
  ASSERT_TRUE(events_.wait_staged(before + 4));
  fs::remove_all(source_.path());
  for (int64_t file = 0; file < 4; ++file) EXPECT_TRUE(read_first(*files, file));
  EXPECT_TRUE(events_.failures().empty());
}

TEST_F(StagedFilesTest, CopiesThatACrashToreAreMadeAgain) {
  const auto damage = [this](int64_t file, size_t cut, size_t zeroed_from, size_t zeroed_to) {
    Bytes bytes = original(file).substr(0, cut);
    for (size_t i = zeroed_from; i < zeroed_to; ++i) bytes[i] = '\0';
    fs::create_directories(fs::path(copy_path(file)).parent_path());
    std::ofstream(copy_path(file), std::ios::binary) << bytes;
  };
  damage(0, 491, 0, 0);      // short
  damage(1, 492, 400, 492);  // its end was never written
  damage(2, 492, 0, 100);    // nor the beginning of this one
  damage(3, 0, 0, 0);
  const auto files = start();
  ASSERT_TRUE(events_.wait_staged(4));
  for (int64_t file = 0; file < 4; ++file) EXPECT_EQ(bytes_of(copy_path(file)), original(file));
}

TEST_F(StagedFilesTest, DistrustedCopyIsDroppedAndMadeAgain) {
  const auto files = start();
  ASSERT_TRUE(events_.wait_staged(4));
  EXPECT_TRUE(read_first(*files, 1));
  EXPECT_TRUE(files->distrust(1));
  EXPECT_FALSE(fs::exists(copy_path(1)));
  EXPECT_EQ(files->where(1), source_.path() + "/shards/1.shard");
  ASSERT_EQ(events_.failures().size(), 1u);
  EXPECT_THAT(events_.failures()[0].second.message, HasSubstr(copy_path(1)));
  EXPECT_TRUE(read_first(*files, 1));
  ASSERT_TRUE(events_.wait_staged(5));
  EXPECT_TRUE(read_first(*files, 1));
}

TEST_F(StagedFilesTest, CopyThatSomebodyRemovedIsNotMissed) {
  const auto files = start();
  ASSERT_TRUE(events_.wait_staged(4));
  fs::remove_all(in_stage(index_->id().substr(0, 16)));
  for (int64_t file = 0; file < 4; ++file) EXPECT_TRUE(read_first(*files, file));
  ASSERT_TRUE(events_.wait_staged(8));
}

TEST_F(StagedFilesTest, TwoThatStageAtOnceCopyEachFileOnce) {
  constexpr int64_t kMany = 200;
  const TestSet set = make_test_set({.files = kMany, .samples_per_file = 1});
  set.write_files(source_);
  const std::unique_ptr<DatasetIndex> index = set.index();
  std::atomic<int> copies = 0;
  const auto start_another = [&] {
    const auto count = [&](int64_t, int64_t offset, Bytes&) -> Status {
      if (offset == 0) ++copies;
      return {};
    };
    StageSetup another{.source = std::make_unique<ScriptedSource>(
                           open_folder_files(source_.path(), *index), count),
                       .index = index.get(),
                       .folder = stage_.path(),
                       .threads = 3};
    events_.listen(another);
    return start(std::move(another));
  };
  const auto one = start_another();
  const auto two = start_another();
  // A file that is the other's is looked at again whenever it is read.
  Bytes buffer;
  while (events_.staged().size() < 2 * kMany) {
    for (int64_t file = 0; file < kMany; ++file) {
      ASSERT_TRUE(one->read(file, 6, 24, buffer));
      EXPECT_EQ(buffer, set.stored(file));
      ASSERT_TRUE(two->read(file, 6, 24, buffer));
      EXPECT_EQ(buffer, set.stored(file));
    }
  }
  EXPECT_EQ(copies, kMany);
  EXPECT_EQ(files_in_stage(), kMany);
  EXPECT_TRUE(events_.failures().empty());
}

TEST_F(StagedFilesTest, FolderThatCannotBeMadeIsAnErrorThatNamesTheOption) {
  StageSetup bad = setup();
  bad.folder = stage_.write("file", "x") + "/below";
  const auto files = stage_files(std::move(bad));
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().message, HasSubstr("data.stage"));
}

// Runs `body` in a process of its own that never returns from it.
template <typename Body>
pid_t in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(1);
  }
  return child;
}

TEST_F(StagedFilesTest, ProcessKilledInTheMiddleLeavesNothingThatIsTrusted) {
  const pid_t child = in_child([this] {
    StageEvents events;
    StageSetup doomed = setup([](int64_t file, int64_t offset, Bytes&) -> Status {
      if (file == 1 && offset == 5 * kBlock) ::raise(SIGKILL);
      return {};
    });
    events.listen(doomed);
    const auto files = start(std::move(doomed));
    events.wait_staged(4);
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::exists(copy_path(0)));
  EXPECT_FALSE(fs::exists(copy_path(1)));
  EXPECT_EQ(fs::file_size(copy_path(1) + ".part"), 5u * kBlock);

  std::atomic<int> copies_of_first = 0;
  const auto files = start([&](int64_t file, int64_t, Bytes&) -> Status {
    if (file == 0) ++copies_of_first;
    return {};
  });
  ASSERT_TRUE(events_.wait_staged(4));
  EXPECT_EQ(copies_of_first, 0);
  EXPECT_EQ(bytes_of(copy_path(1)), original(1));
  EXPECT_EQ(files_in_stage(), 4);
}

TEST_F(StagedFilesTest, NothingOfAnAbandonedPartIsKept) {
  fs::create_directories(fs::path(copy_path(0)).parent_path());
  std::ofstream(copy_path(0) + ".part") << Bytes(2000, 'x');
  const auto files = start();
  ASSERT_TRUE(events_.wait_staged(4));
  EXPECT_EQ(bytes_of(copy_path(0)), original(0));
}

TEST_F(StagedFilesTest, FileThatAnotherProcessCopiesIsLeftToItWhileItLives) {
  int said[2];
  ASSERT_EQ(::pipe(said), 0);
  const pid_t child = in_child([&, this] {
    StageSetup slow = setup([&](int64_t, int64_t offset, Bytes&) -> Status {
      if (offset != 2 * kBlock) return {};
      if (::write(said[1], "x", 1) != 1) ::_exit(2);
      ::pause();  // until killed
      return {};
    });
    const auto files = start(std::move(slow));
    ::pause();
  });
  char word = 0;
  ASSERT_EQ(::read(said[0], &word, 1), 1);  // it holds the lock of file 0
  ::close(said[0]);
  ::close(said[1]);

  std::atomic<int> copies_of_first = 0;
  const auto files = start([&](int64_t file, int64_t offset, Bytes&) -> Status {
    if (file == 0 && offset == 0) ++copies_of_first;
    return {};
  });
  ASSERT_TRUE(events_.wait_staged(3));
  EXPECT_THAT(events_.staged(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(read_first(*files, 0));
  EXPECT_EQ(copies_of_first, 0);

  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  while (events_.staged().size() < 4) ASSERT_TRUE(read_first(*files, 0));
  EXPECT_EQ(copies_of_first, 1);
  EXPECT_EQ(bytes_of(copy_path(0)), original(0));
}

}  // namespace
}  // namespace tern
