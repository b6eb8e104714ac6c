#include "cli/fetch_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "cli/import_request.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/test_http_server.h"
#include "dataset/dataset.h"
#include "preempt/signal_watcher.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Request = TestHttpServer::Request;
using Answer = TestHttpServer::Answer;

// A server that has CIFAR-10 with two images a batch, in an archive.
class FetchDataTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "fetch_data_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    make_archive();
    setup_.data = {.format = "cifar10",
                   .path = folder_ / "data/cifar10",
                   .source = server_.url("/cifar.tar.gz"),
                   .source_sha256 = to_hex(sha256(archive_))};
  }
  void TearDown() override { fs::remove_all(folder_); }

  void make_archive() {
    const fs::path batches = folder_ / "cifar-10-batches-bin";
    fs::create_directories(batches);
    for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                             "data_batch_5", "test_batch"}) {
      std::ofstream file(batches / (std::string(name) + ".bin"), std::ios::binary);
      for (const char label : {'\3', '\7'})
        file << std::string(1, label) << std::string(3072, label);
    }
    std::ofstream(batches / "batches.meta.txt")
        << "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";
    const std::string tar = (folder_ / "cifar.tar.gz").string();
    ASSERT_EQ(std::system(
                  ("tar czf " + tar + " -C " + folder_.string() + " cifar-10-batches-bin").c_str()),
              0);
    std::ifstream file(tar, std::ios::binary);
    archive_.assign(std::istreambuf_iterator<char>(file), {});
  }

  // In a child, which takes the blocked signals with it.
  int fetch_in_child() {
    const pid_t child = fork();
    if (child == 0) {
      if (!SignalWatcher::block_signals()) _exit(99);
      if (stalls_) kill(getpid(), SIGTERM);
      const Result<int> fetched = fetch_data(setup_);
      _exit(fetched ? *fetched : exit_code_of(fetched.error().code));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  Answer answer(const Request& request) {
    Answer answer = serve_file(request, archive_, "\"v1\"");
    if (stalls_) {
      answer.cut_after = 100;
      answer.stall = true;
    }
    return answer;
  }

  fs::path folder_;
  std::string archive_;
  FetchSetup setup_;
  std::atomic<bool> stalls_ = false;  // after 100 bytes
  TestHttpServer server_{[this](const Request& request) { return answer(request); }};
};

TEST_F(FetchDataTest, WhatIsMissingIsFetchedPackedAndTidiedUp) {
  const Result<bool> agreed = agree_to_fetch(setup_, nullptr);
  ASSERT_TRUE(agreed) << agreed.error().message;
  ASSERT_TRUE(*agreed);
  ASSERT_EQ(fetch_in_child(), kExitDone);
  const auto train = open_dataset(setup_.data, Split::train);
  ASSERT_TRUE(train) << train.error().message;
  EXPECT_EQ((*train)->size(), 10);
  EXPECT_EQ((*train)->label(1), 7);
  EXPECT_EQ((*open_dataset(setup_.data, Split::test))->size(), 2);
  EXPECT_FALSE(fs::exists(fs::path(setup_.data.path) / ".download"));
  EXPECT_FALSE(agree_to_fetch(setup_, nullptr).value_or(true));
}

TEST_F(FetchDataTest, APersonIsToldWhatAndMaySayNo) {
  testing::internal::CaptureStderr();
  const Result<bool> agreed = agree_to_fetch(setup_, [](const std::string&) { return false; });
  const std::string told = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().code, Code::cancelled);
  EXPECT_THAT(told, HasSubstr(setup_.data.source));
  EXPECT_THAT(told, HasSubstr(setup_.data.path));
  EXPECT_THAT(told, HasSubstr("sha256"));
  EXPECT_EQ(server_.requests()[0].method, "HEAD");  // how much was not in the recipe
  EXPECT_FALSE(fs::exists(setup_.data.path));
  setup_.data.source_bytes = 170'052'171;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(agree_to_fetch(setup_, [](const std::string&) { return true; }).value_or(false));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("170.1 MB"));
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(FetchDataTest, ASignalEndsItAndTheNextCallGoesOn) {
  stalls_ = true;
  EXPECT_EQ(fetch_in_child(), kExitPreempted);
  stalls_ = false;
  const fs::path part = fs::path(setup_.data.path) / ".download/cifar.tar.gz.part";
  fs::create_directories(part.parent_path());  // what was kept depends on when the signal came
  std::ofstream(part, std::ios::binary) << archive_.substr(0, 100);
  std::ofstream(part.string() + ".etag") << "\"v1\"";
  testing::internal::CaptureStderr();
  EXPECT_TRUE(agree_to_fetch(setup_, nullptr).value_or(false));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("100 B of it have arrived before"));
  ASSERT_EQ(fetch_in_child(), kExitDone);
  EXPECT_EQ(server_.requests().back().first_byte(), 100u);
  EXPECT_TRUE(open_dataset(setup_.data, Split::train));
}

TEST_F(FetchDataTest, OtherBytesThanTheRecipeSaysAreNotImported) {
  setup_.data.source_sha256 = std::string(64, '0');
  EXPECT_EQ(fetch_in_child(), kExitCorrupt);
  EXPECT_FALSE(fs::exists(setup_.data.path));
}

// A page that asks for a password comes with status 200.
TEST_F(FetchDataTest, WhatIsNoArchiveIsFetchedAnewTheNextTime) {
  setup_.data.source_sha256.clear();
  const std::string archive = std::exchange(archive_, "<html>Log in first</html>");
  EXPECT_EQ(fetch_in_child(), kExitCorrupt);
  EXPECT_FALSE(fs::exists(setup_.data.path));
  archive_ = archive;
  EXPECT_EQ(fetch_in_child(), kExitDone);
  EXPECT_EQ((*open_dataset(setup_.data, Split::train))->size(), 10);
  EXPECT_FALSE(fs::exists(fs::path(setup_.data.path) / ".download"));
}

TEST_F(FetchDataTest, AnArchiveThatWasCutShortIsFetchedAnewToo) {
  setup_.data.source_sha256.clear();
  const std::string archive = std::exchange(archive_, archive_.substr(0, archive_.size() / 2));
  EXPECT_EQ(fetch_in_child(), kExitCorrupt);
  archive_ = archive;
  EXPECT_EQ(fetch_in_child(), kExitDone);
}

TEST_F(FetchDataTest, WhatCameFromAnotherAddressIsNotTakenForThis) {
  const fs::path downloads = fs::path(setup_.data.path) / ".download";
  const std::string other = server_.url("/v1/cifar.tar.gz");
  for (const bool is_whole : {false, true}) {
    fs::create_directories(downloads);
    const fs::path file = downloads / (is_whole ? "cifar.tar.gz" : "cifar.tar.gz.part");
    std::ofstream(file, std::ios::binary) << std::string(100, 'x');
    std::ofstream(downloads / "cifar.tar.gz.part.etag") << "\"v1\"";
    std::ofstream(downloads / ".address") << to_hex(sha256(other));
    ASSERT_EQ(fetch_in_child(), kExitDone);
    EXPECT_EQ(server_.requests().back().first_byte(), 0u);
    EXPECT_FALSE(fs::exists(downloads));
    fs::remove_all(setup_.data.path);
  }
}

TEST_F(FetchDataTest, IndexedWhereItWasFetchedToItMayBeMoved) {
  const std::string tar = (folder_ / "plain.tar").string();
  ASSERT_EQ(
      std::system(("tar cf " + tar + " -C " + folder_.string() + " cifar-10-batches-bin").c_str()),
      0);
  std::ifstream file(tar, std::ios::binary);
  archive_.assign(std::istreambuf_iterator<char>(file), {});
  SystemClock clock;
  Log log(clock, Level::error);
  const fs::path made = folder_ / "made";
  const auto imported = import_as_requested(
      {.source = server_.url("/plain.tar"), .destination = made}, log, clock, {});
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_FALSE(fs::exists(made / ".download"));
  fs::rename(made, folder_ / "moved");
  setup_.data.path = folder_ / "moved";
  const auto train = open_dataset(setup_.data, Split::train);
  ASSERT_TRUE(train) << train.error().message;
  Bytes buffer;
  EXPECT_TRUE((*train)->fetch(9, buffer));
}

TEST_F(FetchDataTest, DataThatOnlyAPersonMayFetchSaysHow) {
  setup_.data.source.clear();
  setup_.data.source_note = "Download it from example.org, then type this.";
  const Result<bool> agreed = agree_to_fetch(setup_, nullptr);
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().code, Code::not_found);
  EXPECT_THAT(agreed.error().message, HasSubstr(setup_.data.source_note));
  setup_.data.source_note.clear();
  EXPECT_FALSE(agree_to_fetch(setup_, nullptr).value_or(true));
}

TEST_F(FetchDataTest, WhatIsThereIsLeftAlone) {
  setup_.data.path = folder_ / "cifar-10-batches-bin";
  EXPECT_FALSE(agree_to_fetch(setup_, nullptr).value_or(true));
  setup_.data.path = folder_ / "cifar.tar.gz";
  EXPECT_FALSE(agree_to_fetch(setup_, nullptr).value_or(true));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(FetchDataTest, ASourceThatIsNoAddressIsTheUsersMistake) {
  setup_.data.source = "/data/cifar.tar.gz";
  const Result<bool> agreed = agree_to_fetch(setup_, nullptr);
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().code, Code::invalid);
  setup_.data.source = "s3://bucket/cifar.tar.gz";
  EXPECT_THAT(agree_to_fetch(setup_, nullptr).error().message, HasSubstr("is in a bucket"));
}

}  // namespace
}  // namespace tern
