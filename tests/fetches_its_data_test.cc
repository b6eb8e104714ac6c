// A recipe that knows where its data comes from, with the real program and a server on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "core/hash.h"
#include "core/test_http_server.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class FetchesItsData : public testing::Test {
 protected:
  void SetUp() override {
    make_archive();
    write_text(place_ / "mine.toml",
               fmt::format("[data]\n"
                           "format = \"cifar10\"\n"
                           "path = \"data/cifar10\"\n"
                           "source = \"{}\"\n"
                           "source_sha256 = \"{}\"\n"
                           "[model]\n"
                           "name = \"cifar-tutorial\"\n"
                           "[train]\n"
                           "epochs = 2\n"
                           "batch = 4\n"
                           "threads = 1\n",
                           server_.url("/cifar.tar.gz"), to_hex(sha256(archive_))));
  }

  // CIFAR-10 with eight images a batch.
  void make_archive() {
    fs::create_directories(place_ / "cifar-10-batches-bin");
    for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                             "data_batch_5", "test_batch"}) {
      std::string batch;
      for (char label = 0; label < 8; ++label) {
        batch += std::string(1, label) + std::string(3072, static_cast<char>(label * 16));
      }
      write_text(place_ / ("cifar-10-batches-bin/" + std::string(name) + ".bin"), batch);
    }
    const Finished packed = run_to_end(
        {.command = {"tar", "czf", "cifar.tar.gz", "cifar-10-batches-bin"}, .folder = place_ / ""});
    ASSERT_EQ(packed.exit_code, 0) << packed.err;
    archive_ = read_text(place_ / "cifar.tar.gz");
  }

  TestHttpServer::Answer answer(const TestHttpServer::Request& request) {
    TestHttpServer::Answer answer = serve_file(request, archive_, "\"v1\"");
    answer.stall = stalls_;
    if (stalls_) answer.cut_after = 100;
    return answer;
  }

  std::vector<std::string> train() const { return {"train", "mine.toml", "--run", "mine"}; }

  WorkFolder place_;
  std::string archive_;
  std::atomic<bool> stalls_ = false;  // after 100 bytes
  TestHttpServer server_{
      [this](const TestHttpServer::Request& request) { return answer(request); }};
};

TEST_F(FetchesItsData, TheFirstRunFetchesAndTheSecondDoesNot) {
  const Finished first = place_.tern(train());
  ASSERT_EQ(first.exit_code, kExitDone) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr(server_.url("/cifar.tar.gz")), HasSubstr("data/cifar10"),
                               HasSubstr("sha256")));
  EXPECT_EQ(place_.report("mine")["step"], 20);
  const size_t requests = server_.requests().size();
  const Finished second = place_.tern({"train", "mine.toml", "--run", "again"});
  EXPECT_EQ(second.exit_code, kExitDone) << second.err;
  EXPECT_EQ(server_.requests().size(), requests);
}

TEST_F(FetchesItsData, CtrlCKeepsWhatHasArrivedForTheNextTime) {
  stalls_ = true;
  Process process(place_.start(train()));
  const fs::path part = place_ / "data/cifar10/.download/cifar.tar.gz.part";
  ASSERT_TRUE(wait_until([&] {
    std::error_code error;
    return fs::file_size(part, error) == 100 && !error;
  })) << process.err_so_far();
  process.signal(SIGINT);
  const Finished stopped = process.wait();
  EXPECT_EQ(stopped.exit_code, kExitStopped) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("the same command goes on"));
  stalls_ = false;
  const Finished finished = place_.tern(train());
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("100 B of it have arrived before"));
  EXPECT_EQ(server_.requests().back().first_byte(), 100u);
}

TEST_F(FetchesItsData, ASourceThatHasChangedIsRefusedBeforeAnythingIsTrained) {
  archive_[archive_.size() / 2] ^= 1;
  const Finished finished = place_.tern(train());
  EXPECT_EQ(finished.exit_code, kExitCorrupt) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("sha256"));
  EXPECT_FALSE(fs::exists(place_.run("mine")));
}

}  // namespace
}  // namespace tern
