// Several ranks train a run with the real programs, and some of them are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>

#include "core/random.h"
#include "storage/safetensors.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;

// Without dropout, which is random by rank.
std::vector<std::string> with_ranks(const std::string& name, int ranks, int64_t epochs,
                                    std::vector<std::string> more = {}) {
  std::vector<std::string> words =
      WorkFolder::train(name, {"--ranks", std::to_string(ranks), "--set", "model.dropout=0",
                               "--set", "train.epochs=" + std::to_string(epochs)});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class RanksSurvive : public testing::Test {
 protected:
  std::string weights(const std::string& name) const {
    return read_text(place_.run(name) / "model.safetensors");
  }

  // Processes of the ranks of the group as it is now, the leader first.
  std::vector<pid_t> ranks_of(const std::string& name) const {
    const auto groups = place_.ledger(name, "ranks");
    std::vector<pid_t> pids;
    if (groups.empty()) return pids;
    for (const auto& member : groups.back()["members"]) {
      const std::string text = member;
      pids.push_back(std::stoi(text.substr(text.find("pid ") + 4)));
    }
    return pids;
  }

  // Every step's, as near as rounding in another order leaves them.
  void expect_losses_near(const std::string& name, const std::string& other) const {
    const auto losses = place_.losses(name);
    const auto expected = place_.losses(other);
    ASSERT_EQ(losses.size(), expected.size());
    for (const auto& [step, loss] : losses) {
      ASSERT_TRUE(expected.contains(step)) << "step " << step;
      ASSERT_NEAR(loss, expected.at(step), 1e-3 * expected.at(step) + 1e-4) << "step " << step;
    }
  }

  WorkFolder place_;
};

// The largest difference between two weights files.
double largest_difference(const std::string& a, const std::string& b) {
  const auto first = parse_safetensors(a);
  const auto second = parse_safetensors(b);
  EXPECT_TRUE(first.has_value() && second.has_value());
  if (!first.has_value() || !second.has_value()) return INFINITY;
  EXPECT_EQ(first->tensors.size(), second->tensors.size());
  double largest = 0;
  for (size_t i = 0; i < first->tensors.size(); ++i) {
    if (first->tensors[i].dtype != "F32") continue;
    for (size_t at = 0; at + 4 <= first->tensors[i].data.size(); at += 4) {
      float x = 0;
      float y = 0;
      std::memcpy(&x, first->tensors[i].data.data() + at, 4);
      std::memcpy(&y, second->tensors[i].data.data() + at, 4);
      largest = std::max(largest, static_cast<double>(std::fabs(x - y)));
    }
  }
  return largest;
}

TEST_F(RanksSurvive, TwoRanksGiveTheSameBitsTwiceAndAfterAStop) {
  // Far from its end when it is stopped, however long this test had to wait for its turn.
  const int64_t epochs = 2000;
  Process process(place_.start(with_ranks("stopped", 2, epochs)));
  ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("stopped") >= 60; }))
      << process.err_so_far();
  process.signal(SIGTERM);
  const Finished stopped = process.wait();
  ASSERT_EQ(stopped.exit_code, kExitPreempted) << stopped.err;
  EXPECT_EQ(place_.report("stopped")["steps_lost"], 0);

  const int64_t steps = place_.steps_recorded("stopped") + 120;
  for (const std::string name : {"stopped", "a", "b"}) {
    const Finished run =
        place_.tern(with_ranks(name, 2, epochs, {"--steps", std::to_string(steps)}));
    ASSERT_EQ(run.exit_code, kExitDone) << run.err;
    expect_every_step_once(place_, name, steps);
    EXPECT_EQ(place_.losses(name), place_.losses("stopped"));
    EXPECT_TRUE(weights(name) == weights("stopped"));
  }

  // As one process does it, but for rounding.
  const Finished alone =
      place_.tern(with_ranks("alone", 1, epochs, {"--steps", std::to_string(steps)}));
  ASSERT_EQ(alone.exit_code, kExitDone) << alone.err;
  EXPECT_LT(largest_difference(weights("a"), weights("alone")), 1e-3);
}

// What is killed goes on, and the run with it: in a world of one by the same command.
TEST_F(RanksSurvive, WorldsOfOneToFourWithKillsTrainAsOneRankAlone) {
  const int64_t epochs = 2000;
  const uint64_t seed = 4;
  // So slow that what rounding leaves does not grow: sums of another number of ranks are others.
  const std::vector<std::string> slowly = {"--set", "optimizer.learning_rate=0.001", "--set",
                                           "ranks.restarts=100"};
  int64_t steps = 0;
  for (const int ranks : {1, 2, 3, 4, 1}) {
    const int64_t before = steps;
    steps += 150;
    std::vector<std::string> words = with_ranks("run", ranks, epochs, slowly);
    words.insert(words.end(), {"--steps", std::to_string(steps)});
    Process process(place_.start(words));
    const size_t groups = place_.ledger("run", "ranks").size();
    ASSERT_TRUE(wait_until([&] {
      return place_.steps_recorded("run") > before + 20 &&
             (ranks == 1 || place_.ledger("run", "ranks").size() > groups);
    })) << process.err_so_far();
    if (ranks == 1) {
      process.signal(SIGKILL);
    } else {
      const std::vector<pid_t> pids = ranks_of("run");
      kill(pids[random_value(seed, Stream::step, static_cast<uint64_t>(ranks)) % pids.size()],
           SIGKILL);
    }
    Finished finished = process.wait();
    if (ranks == 1) {
      ASSERT_EQ(finished.exit_code, -SIGKILL) << "it had ended before";
      finished = place_.tern(words);
    }
    ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
    ASSERT_EQ(place_.steps_recorded("run"), steps);
  }
  std::vector<std::string> words = with_ranks("alone", 1, epochs, slowly);
  words.insert(words.end(), {"--steps", std::to_string(steps)});
  const Finished alone = place_.tern(words);
  ASSERT_EQ(alone.exit_code, kExitDone) << alone.err;
  expect_only_lost_steps_twice(place_, "run");
  expect_losses_near("run", "alone");
  EXPECT_LT(largest_difference(weights("run"), weights("alone")), 1e-3);
}

TEST_F(RanksSurvive, ARunGoesOnWithAnotherNumberOfRanks) {
  int64_t steps = 0;
  for (const int ranks : {2, 3, 1}) {
    steps += 12;
    const Finished run =
        place_.tern(with_ranks("run", ranks, 20, {"--steps", std::to_string(steps)}));
    ASSERT_EQ(run.exit_code, kExitDone) << run.err;
  }
  expect_every_step_once(place_, "run", steps);
  EXPECT_EQ(place_.report("run")["step"], steps);
}

// Kills ranks of three, the leader among them, whenever the group is whole.
TEST_F(RanksSurvive, KilledRanksCostNoStepAndTheRunEndsAsItWould) {
  const int64_t epochs = 150;
  const Finished whole = place_.tern(with_ranks("whole", 3, epochs));
  ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;

  const uint64_t seed = 8;
  Process process(place_.start(with_ranks("killed", 3, epochs, {"--set", "ranks.restarts=100"})));
  int64_t after = 20;
  for (uint64_t kill_number = 0; kill_number < 4; ++kill_number, after += 90) {
    ASSERT_TRUE(wait_until([&] {
      return place_.steps_recorded("killed") >= after && ranks_of("killed").size() >= 2;
    })) << process.err_so_far();
    const std::vector<pid_t> pids = ranks_of("killed");
    // The first is the leader's turn.
    const size_t which =
        kill_number == 0 ? 0 : random_value(seed, Stream::step, kill_number) % pids.size();
    kill(pids[which], SIGKILL);
  }
  const Finished killed = process.wait();
  ASSERT_EQ(killed.exit_code, kExitDone) << killed.err;
  expect_every_step_once(place_, "killed", 6 * epochs);
  EXPECT_GE(place_.report("killed")["ranks"]["lost"].get<int64_t>(), 3);
  EXPECT_EQ(place_.report("killed")["status"], "done");
  expect_losses_near("killed", "whole");
  EXPECT_LT(largest_difference(weights("killed"), weights("whole")), 1e-3);
}

// As torchrun would start it: no supervisor of ours.
TEST_F(RanksSurvive, TorchrunsVariablesMakeAGroup) {
  std::vector<std::unique_ptr<Process>> ranks;
  const std::string port = std::to_string(20'000 + getpid() % 20'000);
  for (const std::string rank : {"0", "1"}) {
    Process::Start start = place_.start(
        WorkFolder::train("run", {"--set", "model.dropout=0", "--set", "train.epochs=10"}));
    start.environment = {{"RANK", rank},
                         {"LOCAL_RANK", rank},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", port}};
    ranks.push_back(std::make_unique<Process>(start));
  }
  for (const auto& rank : ranks) {
    const Finished finished = rank->wait();
    EXPECT_EQ(finished.exit_code, kExitDone) << finished.err;
  }
  expect_every_step_once(place_, "run", 60);
  EXPECT_EQ(place_.ledger("run", "ranks").at(0)["world"], 2);
}

TEST_F(RanksSurvive, ThoseThatAreLeftStepBeforeAStandbyIsLetIn) {
  Process::Start start = place_.start(with_ranks("run", 2, 2000));
  const std::filesystem::path file = place_ / "status.json";
  start.environment["TERN_STATUS_FILE"] = file.string();
  Process process(start);
  const auto standby_waits = [&file] {
    const auto status = nlohmann::json::parse(read_text(file), nullptr, false);
    return status.is_object() && status["ranks"].size() == 3 &&
           status["ranks"][2]["role"] == "joining";
  };
  ASSERT_TRUE(wait_until(standby_waits)) << process.err_so_far();
  kill(ranks_of("run")[1], SIGKILL);
  ASSERT_TRUE(wait_until([&] { return place_.ledger("run", "ranks").size() == 3; }))
      << process.err_so_far();
  const auto groups = place_.ledger("run", "ranks");
  EXPECT_EQ(groups[1]["world"], 1);
  EXPECT_EQ(groups[2]["world"], 2);
  EXPECT_LT(groups[1]["step"].get<int64_t>(), groups[2]["step"].get<int64_t>());
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, kExitPreempted);
}

TEST_F(RanksSurvive, SettingsThatDifferAreNamed) {
  std::vector<std::unique_ptr<Process>> ranks;
  const std::string port = std::to_string(20'001 + getpid() % 20'000);
  for (const std::string rank : {"0", "1"}) {
    Process::Start start = place_.start(WorkFolder::train(
        "run", {"--set", "optimizer.momentum=0." + std::to_string(8 + std::stoi(rank))}));
    start.environment = {
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
    ranks.push_back(std::make_unique<Process>(start));
  }
  const Finished second = ranks[1]->wait();
  EXPECT_EQ(second.exit_code, kExitPrecondition);
  EXPECT_THAT(second.err, HasSubstr("optimizer.momentum"));
}

}  // namespace
}  // namespace tern
