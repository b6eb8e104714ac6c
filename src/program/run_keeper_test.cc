// Keepers of one run's store, with a real clock: each has a thread.
#include "program/run_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ranks/test_server.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Of two machines, each with a rank.
PlaceInGroup attempt(int64_t number) { return {.attempt = number, .rank = 0, .machines = {0, 1}}; }

class RunKeeperTest : public ServerTest {
 protected:
  RunKeeperTest() : log_file_(open_memstream(&log_text_, &log_size_)) {
    std::string folder = testing::TempDir() + "keeper_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    serve({.expected = 1, .min = 1, .max = 1});
    link_ = link(0);
    EXPECT_TRUE(link_->join({.agreement = "same"}, {}));
  }
  ~RunKeeperTest() override {
    std::fclose(log_file_);
    std::free(log_text_);
    fs::remove_all(folder_);
  }

  fs::path checkpoints(const std::string& machine) const {
    return folder_ / machine / "checkpoints";
  }
  void write(const std::string& machine, const std::string& name, const std::string& text) const {
    std::ofstream(checkpoints(machine) / name) << text;
  }
  std::string read(const std::string& machine, const std::string& name) const {
    std::ifstream file(checkpoints(machine) / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::unique_ptr<RunKeeper> keeper(ObjectStore& run, const std::string& machine) {
    fs::create_directories(checkpoints(machine));
    auto made = RunKeeper::create({.run = &run,
                                   .folders = {.checkpoints = checkpoints(machine)},
                                   .work = folder_ / machine,
                                   .words = {"program"},
                                   .has_peers = true,
                                   .link = link_.get(),
                                   .clock = &clock_,
                                   .log = &log_});
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  std::string logged() {
    std::fflush(log_file_);
    return {log_text_, log_size_};
  }
  // At most a minute, for what a keeper's thread does.
  bool wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 12'000 && !condition(); ++i) clock_.wait_for(Milliseconds(5), {});
    return condition();
  }
  int64_t newest() {
    const auto numbers = list_manifests(run_);
    return numbers && !numbers->empty() ? numbers->back() : 0;
  }

  fs::path folder_;
  char* log_text_ = nullptr;
  size_t log_size_ = 0;
  std::FILE* const log_file_;
  Log log_{clock_, Level::info, log_file_};
  std::unique_ptr<RankLink> link_;
  MemoryStore run_;
};

TEST_F(RunKeeperTest, ALeaderThatWasCutOffKeepsNothingOnceAnotherLeads) {
  const auto a = keeper(run_, "a");
  ASSERT_TRUE(a->begin_leading(attempt(1), {"a", "b"}));
  write("a", "x", "1");
  ASSERT_TRUE(wait_until([&] { return newest() == 1; }));
  const auto b = keeper(run_, "b");
  ASSERT_TRUE(b->begin_leading(attempt(2), {"b", "c"}));
  EXPECT_EQ(read("b", "x"), "1");
  write("a", "x", "of a, which is cut off");
  ASSERT_TRUE(wait_until([&] { return logged().find("another process") != std::string::npos; }));
  const int64_t before = newest();
  write("b", "x", "of b, which leads");
  ASSERT_TRUE(wait_until([&] { return newest() > before; }));
  EXPECT_TRUE(b->finish(0));
  EXPECT_EQ(a->finish(0).error().code, Code::aborted);
  // And the cut is healed.
  ASSERT_TRUE(a->begin_leading(attempt(3), {"a", "b"}));
  EXPECT_EQ(read("a", "x"), "of b, which leads");
}

TEST_F(RunKeeperTest, ALastSaveThatFailsIsTold) {
  FaultyStore faulty(run_);
  const auto keeper = this->keeper(faulty, "a");
  ASSERT_TRUE(keeper->begin_leading(attempt(1), {"a", "b"}));
  ASSERT_TRUE(wait_until([&] { return run_.list(kLedgerObject)->size() > 0; }));
  for (int64_t i = 1; i < 1000; ++i) {
    faulty.inject(faulty.requests() + i, Fault::fail_before);
  }
  write("a", "x", "the only copy");
  const Status kept = keeper->finish(0);
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().message, HasSubstr(checkpoints("a").string()));
  EXPECT_THAT(kept.error().message, HasSubstr("tern restart"));
  EXPECT_EQ(read("a", "x"), "the only copy");
}

}  // namespace
}  // namespace tern
