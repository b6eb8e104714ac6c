// The supervisor with real processes (fake_rank.cc), which are killed, stopped and told to leave.
#include "ranks/supervisor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <set>

#include "core/random.h"
#include "core/system_files.h"
#include "storage/proc_stat.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// A line of fake_rank's.
struct Did {
  int64_t generation = 0;
  int64_t rank = 0;
  int64_t world = 0;
  int64_t step = 0;
  pid_t pid = 0;
};

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest()
      : log_file_(open_memstream(&log_text_, &log_size_)), log_(clock_, Level::info, log_file_) {
    std::string folder = testing::TempDir() + "supervisor_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    options_ = {
        .count = 3, .heartbeat = Milliseconds(20), .timeout = Milliseconds(20'000), .standby = 0};
  }
  ~SupervisorTest() override {
    if (running_.valid()) {
      board_.post({.kind = NoticeKind::stop, .source = "the test's end"});
      running_.wait();
    }
    std::fclose(log_file_);
    std::free(log_text_);
    fs::remove_all(folder_);
  }

  SupervisorSetup setup(const std::vector<std::string>& words) {
    RankCommand command{.arguments = {folder_.string()}, .environment = {"PATH=/usr/bin"}};
    command.arguments.insert(command.arguments.end(), words.begin(), words.end());
    return {.options = options_,
            .status_file = folder_ / "status.json",
            .run = "runs/fake",
            .program = TERN_FAKE_RANK,
            .command = [command](bool) { return command; },
            .is_final = [](int code) { return code != 1; },
            .out = [this](std::string_view line) { out_ += line; },
            .err = [this](std::string_view line) { err_ += line; },
            .board = &board_,
            .clock = &clock_,
            .log = &log_};
  }
  void start(const std::vector<std::string>& words = {}) {
    running_ = std::async(std::launch::async, [this, words] {
      Supervisor supervisor(setup(words));
      return supervisor.run();
    });
  }
  Result<int> end() { return running_.get(); }
  Result<int> stop(NoticeKind kind = NoticeKind::stop) {
    board_.post({.kind = kind, .source = "a person", .unix_ms = 1});
    return end();
  }

  std::vector<Did> did(int64_t id) const {
    std::vector<Did> all;
    std::ifstream file(folder_ / std::to_string(id));
    Did one;
    while (file >> one.generation >> one.rank >> one.world >> one.step >> one.pid) {
      all.push_back(one);
    }
    return all;
  }
  Did last(int64_t id) const {
    const std::vector<Did> all = did(id);
    return all.empty() ? Did() : all.back();
  }
  // Every rank has done a step in one generation of all of them that is later than this one.
  bool is_complete(int64_t after_generation = 0) const {
    const int64_t generation = last(0).generation;
    for (int64_t id = 0; id < options_.count; ++id) {
      const Did one = last(id);
      if (one.world != options_.count || one.generation != generation) return false;
    }
    return generation > after_generation;
  }

  // Of this test's supervisor, which is this process.
  std::set<pid_t> pids_of_ranks() const {
    std::set<pid_t> pids;
    for (const auto& task : fs::directory_iterator("/proc/self/task")) {
      std::ifstream children(task.path() / "children");
      for (pid_t pid = 0; children >> pid;) pids.insert(pid);
    }
    return pids;
  }

  // The place after all that train has a rank that has entered and is in no group.
  bool standby_waits() const {
    const std::string status = read_system_file(folder_ / "status.json");
    const size_t place = status.find(fmt::format(R"("id":{},)", options_.count));
    return place != std::string::npos && status.find(R"("joining")", place) != std::string::npos;
  }

  // At most two minutes, for events in other processes, which cannot notify us.
  bool wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 24'000; ++i) {
      if (condition()) return true;
      clock_.wait_for(Milliseconds(5), {});
    }
    return condition();
  }

  // Within one process each step follows the one before it; but one that others had finished when
  // the generation ended is taken over from them.
  void expect_no_step_lost(int64_t id) const {
    const std::vector<Did> all = did(id);
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i].pid != all[i - 1].pid) continue;
      const int64_t taken_over = all[i].generation != all[i - 1].generation ? 1 : 0;
      EXPECT_GT(all[i].step, all[i - 1].step) << "rank " << id << ", line " << i;
      EXPECT_LE(all[i].step, all[i - 1].step + 1 + taken_over) << "rank " << id << ", line " << i;
    }
  }
  std::string logged() {
    std::fflush(log_file_);
    return {log_text_, log_size_};
  }

  SystemClock clock_;
  NoticeBoard board_;
  fs::path folder_;
  RanksOptions options_;
  std::string out_;  // to be read once the supervisor has ended
  std::string err_;

 private:
  char* log_text_ = nullptr;
  size_t log_size_ = 0;
  std::FILE* const log_file_;

 protected:
  Log log_;
  std::future<Result<int>> running_;
};

TEST_F(SupervisorTest, RanksTrainTogetherToTheEnd) {
  start({"--steps", "20"});
  const Result<int> code = end();
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(*code, 0);
  for (int64_t id = 0; id < 3; ++id) {
    EXPECT_EQ(last(id).step, 20);
    EXPECT_EQ(did(id).size(), 20U);
    EXPECT_EQ(last(id).rank, id);
    EXPECT_EQ(last(id).generation, 1);
  }
  // The leader speaks for all; the others are named.
  EXPECT_EQ(out_, "rank 0 prints\n");
  EXPECT_THAT(err_, HasSubstr("[rank 1] rank 1 is here\n"));
  EXPECT_THAT(err_, HasSubstr("[rank 2] rank 2 prints\n"));
  EXPECT_THAT(err_, Not(HasSubstr("] rank 0")));
}

TEST_F(SupervisorTest, AKilledRankComesBackAndTheOthersGoOn) {
  start();
  ASSERT_TRUE(wait_until([this] { return is_complete(); }));
  const Did killed = last(1);
  const Did survivor = last(2);
  kill(killed.pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return is_complete(killed.generation); }));
  EXPECT_NE(last(1).pid, killed.pid);
  EXPECT_EQ(last(2).pid, survivor.pid);
  EXPECT_EQ(last(0).rank, 0);
  EXPECT_EQ(*stop(), 10);
  for (int64_t id = 0; id < 3; ++id) expect_no_step_lost(id);
  EXPECT_THAT(logged(), HasSubstr("was killed by signal 9"));
}

TEST_F(SupervisorTest, WhenTheLeaderIsKilledAnotherLeads) {
  start();
  ASSERT_TRUE(wait_until([this] { return is_complete(); }));
  const Did killed = last(0);
  kill(killed.pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return is_complete(killed.generation); }));
  EXPECT_EQ(last(1).rank, 0);
  EXPECT_NE(last(0).rank, 0);
  EXPECT_GT(last(0).step, killed.step);
  EXPECT_EQ(*stop(), 10);
  for (int64_t id = 1; id < 3; ++id) expect_no_step_lost(id);
}

TEST_F(SupervisorTest, AStandbyTakesALostRanksPlaceAndIsReplaced) {
  options_.standby = 1;
  start();
  const auto pids = [this] { return pids_of_ranks(); };
  ASSERT_TRUE(wait_until([&] { return is_complete() && standby_waits(); }));
  const std::set<pid_t> before = pids();
  const Did killed = last(1);
  kill(killed.pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return last(3).world == 3; }));
  EXPECT_TRUE(before.contains(last(3).pid));
  // The place that was lost is the standby's now.
  ASSERT_TRUE(wait_until([&] { return pids().size() == 4; }));
  EXPECT_EQ(last(1).pid, killed.pid);
  EXPECT_EQ(*stop(), 10);
  for (const int64_t id : {0, 2}) expect_no_step_lost(id);
}

TEST_F(SupervisorTest, AStandbyEndsWithTheRunThatDidNotNeedIt) {
  options_.standby = 1;
  options_.count = 2;
  start({"--steps", "1500"});
  ASSERT_TRUE(wait_until([&] { return standby_waits(); }));
  const Result<int> code = end();
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(*code, 0);
  EXPECT_TRUE(did(2).empty());
  EXPECT_THAT(logged(), Not(HasSubstr("lost")));
}

TEST_F(SupervisorTest, AStandbyThatComesWhenAllHaveLeftDoesNotBecomeTheirLeader) {
  options_.standby = 1;
  options_.count = 2;
  start({"--steps", "20", "--late", "2"});
  const Result<int> code = end();
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(*code, 0);
  EXPECT_TRUE(did(2).empty());
  EXPECT_THAT(logged(), Not(HasSubstr("generation=2")));
}

TEST_F(SupervisorTest, AStoppedRankIsHungAndKilled) {
  options_.timeout = Milliseconds(1'000);
  start();
  ASSERT_TRUE(wait_until([this] { return is_complete(); }));
  const Did hung = last(2);
  kill(hung.pid, SIGSTOP);
  ASSERT_TRUE(wait_until([&] { return is_complete(hung.generation); }));
  EXPECT_NE(last(2).pid, hung.pid);
  EXPECT_FALSE(read_process_stat(std::to_string(hung.pid)));
  EXPECT_EQ(*stop(), 10);
  EXPECT_THAT(logged(), HasSubstr("a rank is hung and will be killed rank=2"));
}

TEST_F(SupervisorTest, ANoticeIsToldToAllAndNobodyIsStartedAgain) {
  start();
  ASSERT_TRUE(wait_until([this] { return is_complete(); }));
  EXPECT_EQ(*stop(NoticeKind::preempt), 75);
  for (int64_t id = 0; id < 3; ++id) {
    EXPECT_EQ(did(id).front().pid, last(id).pid);
    EXPECT_FALSE(read_process_stat(std::to_string(last(id).pid)));
  }
}

TEST_F(SupervisorTest, ARankThatAlwaysDiesIsGivenUpAndTheOthersFinish) {
  options_.restarts = 2;
  start({"--steps", "5", "--crash", "1"});
  EXPECT_EQ(*end(), 0);
  EXPECT_EQ(last(0).world, 2);
  EXPECT_EQ(last(0).step, 5);
  EXPECT_THAT(logged(), HasSubstr("not started again rank=1"));
}

TEST_F(SupervisorTest, ARankThatLeavesForGoodIsNotStartedAgain) {
  start({"--steps", "5", "--exit", "2", "75"});
  EXPECT_EQ(*end(), 0);
  EXPECT_EQ(last(0).world, 2);
  EXPECT_THAT(logged(), HasSubstr("a rank has left rank=2 how=\"ended with exit code 75\""));
}

TEST_F(SupervisorTest, WithTooFewRanksLeftTheRunStopsWithAReason) {
  options_.min = 3;
  options_.restarts = 0;
  start({"--crash", "1"});
  const Result<int> code = end();
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message, HasSubstr("fewer than 3 ranks are left"));
}

TEST_F(SupervisorTest, ALeaderThatDiesAfterTheOthersHaveLeftIsAnErrorAndNoWaitForThem) {
  options_.count = options_.min = 2;
  start({"--steps", "5", "--saves", "0"});
  ASSERT_TRUE(wait_until(
      [this] { return last(1).step == 5 && !read_process_stat(std::to_string(last(1).pid)); }));
  kill(last(0).pid, SIGKILL);
  ASSERT_EQ(running_.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const Result<int> code = end();
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message, HasSubstr("rank 0 was killed by signal 9"));
  EXPECT_THAT(code.error().message, HasSubstr("Start the run again"));
}

TEST_F(SupervisorTest, WhatCannotBeStartedIsAnError) {
  SupervisorSetup bad = setup({});
  bad.program = folder_ / "nothing";
  Supervisor supervisor(std::move(bad));
  const Result<int> code = supervisor.run();
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().message, HasSubstr("cannot start " + folder_.string()));
}

TEST_F(SupervisorTest, TheTitleShowsRunAndRankAndNothingShowsTheSecret) {
  start();
  ASSERT_TRUE(wait_until([this] { return is_complete(); }));
  const std::string proc = fmt::format("/proc/{}/", last(1).pid);
  EXPECT_EQ(std::string(read_system_file(proc + "cmdline").c_str()), "tern-train: fake rank 1");
  const std::string environment = read_system_file(proc + "environ");
  EXPECT_THAT(environment, HasSubstr("TERN_RANK_ADDRESS=127.0.0.1:"));
  const size_t secret = environment.find("TERN_RANK_SECRET_FD=");
  ASSERT_NE(secret, std::string::npos);
  EXPECT_LT(std::string(environment.c_str() + secret).size(), 25U) << "a number, not a secret";
  EXPECT_EQ(*stop(), 10);
}

TEST_F(SupervisorTest, RanksEndWithTheirSupervisor) {
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    Supervisor ours(setup({}));
    _exit(ours.run().value_or(1));
  }
  ASSERT_TRUE(wait_until([this] { return is_complete(); }));
  kill(supervisor, SIGKILL);
  waitpid(supervisor, nullptr, 0);
  for (int64_t id = 0; id < 3; ++id) {
    EXPECT_TRUE(wait_until([&] {
      const auto stat = read_process_stat(std::to_string(last(id).pid));
      return !stat || stat->state == 'Z' || stat->state == 'X';
    })) << id;
  }
}

TEST_F(SupervisorTest, AHundredKillsLoseNoStep) {
  start();
  for (uint64_t i = 0; i < 100; ++i) {
    const int64_t before = last(0).generation;
    ASSERT_TRUE(wait_until([this] { return is_complete(); })) << i;
    Random random(1, Stream::order, i);
    const Did victim = last(random.below(3));
    const int64_t step = victim.step;
    kill(victim.pid, SIGKILL);
    ASSERT_TRUE(wait_until([&] { return is_complete(victim.generation); })) << "kill " << i;
    ASSERT_GT(last(0).step, step) << "kill " << i;
    ASSERT_GT(last(0).generation, before);
  }
  EXPECT_EQ(*stop(), 10);
  for (int64_t id = 0; id < 3; ++id) expect_no_step_lost(id);
}

}  // namespace
}  // namespace tern
