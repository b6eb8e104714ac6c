// What a run of several ranks says of itself: bytes, waits, who is slow, what bounds it, who waits
// for whom. With the real programs; what is wrong is planted from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "core/clock.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> with_ranks(const std::string& name, int ranks,
                                    std::vector<std::string> more = {}) {
  std::vector<std::string> words =
      WorkFolder::train(name, {"--ranks", std::to_string(ranks), "--set", "model.dropout=0"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class RanksObserved : public testing::Test {
 protected:
  // Steps of some 30 ms, of which a tenth at most is communication: gradients of an ordinary net.
  // Those of the tiny data set are over in 2 ms, and are bound by what ranks tell each other.
  std::vector<std::string> with_work(const std::string& name, const std::string& time_limit) const {
    write_tiny_data(place_ / "more", {.train_samples = 8192});
    return with_ranks(name, 2,
                      {"--set", "train.time_limit=" + time_limit, "--set", "train.epochs=100000",
                       "--set", "checkpoint.every=1h", "--set", "train.evaluate_every=0", "--set",
                       "train.batch=1024", "--set", "model.width=16", "--set", "data.path=more"});
  }

  // Processes of the group's ranks, the leader first.
  std::vector<pid_t> ranks_of(const std::string& name) const {
    std::vector<pid_t> pids;
    const auto groups = place_.ledger(name, "ranks");
    if (groups.empty()) return pids;
    for (const auto& member : groups.back()["members"]) {
      const std::string text = member;
      pids.push_back(std::stoi(text.substr(text.find("pid ") + 4)));
    }
    return pids;
  }

  std::vector<nlohmann::json> step_lines(const std::string& name) const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(read_text(place_.run(name) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("loss")) found.push_back(std::move(json));
    }
    return found;
  }

  WorkFolder place_;
};

void expect_within_5_percent(double measured, double predicted, const std::string& what) {
  EXPECT_GT(predicted, 0) << what;
  EXPECT_NEAR(measured, predicted, 0.05 * predicted) << what;
}

TEST_F(RanksObserved, BytesOnTheNetworkAreThoseThatTheAlgorithmPredicts) {
  for (const int world : {2, 3}) {
    const std::string name = "bytes" + std::to_string(world);
    const Finished run = place_.tern(with_ranks(name, world, {"--steps", "60"}));
    ASSERT_EQ(run.exit_code, kExitDone) << run.err;
    const nlohmann::json ranks = place_.report(name)["ranks"];
    const double predicted = ranks["bytes_per_step"];
    expect_within_5_percent(ranks["sent_per_step"], predicted, name);
    expect_within_5_percent(ranks["received_per_step"], predicted, name);
    ASSERT_EQ(ranks["members"].size(), static_cast<size_t>(world));
    for (const auto& member : ranks["members"]) {
      expect_within_5_percent(member["sent_bytes"], member["predicted_bytes"], member["name"]);
    }
    const auto lines = step_lines(name);
    ASSERT_EQ(lines.size(), 60U);
    const nlohmann::json& last = lines.back()["communication"];
    expect_within_5_percent(last["sent"], last["predicted"], "the last step of " + name);
    EXPECT_EQ(last["wait_us"].size(), static_cast<size_t>(world));
    EXPECT_EQ(last["busy_us"].size(), static_cast<size_t>(world));
  }
}

TEST_F(RanksObserved, WhatAteTheTimeAddsUp) {
  ASSERT_EQ(place_.tern(with_ranks("run", 2, {"--steps", "100"})).exit_code, kExitDone);
  const nlohmann::json scaling = place_.report("run")["ranks"]["scaling"];
  ASSERT_TRUE(scaling.is_object());
  double sum = 0;
  for (const char* part : {"efficiency", "communication", "straggling", "data", "rest"}) {
    sum += scaling[part].get<double>();
  }
  EXPECT_NEAR(sum, 1, 1e-6) << scaling;
  EXPECT_EQ(scaling["against"], "the fastest rank");
  EXPECT_THAT(place_.tern({"report", "run"}).out, HasSubstr("scaling"));
}

// Stops a process for most of the time, as a machine does that others use too.
class Throttled {
 public:
  explicit Throttled(pid_t pid)
      : thread_([this, pid](const std::stop_token& stop) {
          while (!stop.stop_requested() && kill(pid, SIGSTOP) == 0) {
            clock_.wait_for(Milliseconds(60), stop);
            kill(pid, SIGCONT);
            clock_.wait_for(Milliseconds(20), stop);
          }
        }) {}

 private:
  SystemClock clock_;
  std::jthread thread_;
};

TEST_F(RanksObserved, AStragglerIsNamedByVerdictReportAndLog) {
  Process process(place_.start(with_work("run", "20s")));
  ASSERT_TRUE(wait_until([&] { return ranks_of("run").size() == 2; })) << process.err_so_far();
  const pid_t slow = ranks_of("run")[1];
  Finished finished;
  {
    const Throttled throttled(slow);
    finished = process.wait();
  }
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  const nlohmann::json report = place_.report("run");
  const std::string who = "machine 0, rank 1 (pid " + std::to_string(slow) + ")";
  EXPECT_THAT(report["verdict"].get<std::string>(), StartsWith("straggler-bound: " + who));
  EXPECT_EQ(report["ranks"]["slowest"], who);
  EXPECT_GT(report["ranks"]["scaling"]["straggling"], 0.2);
  EXPECT_THAT(finished.err, HasSubstr("the others wait for " + who));
}

// A network namespace of the run's own, whose loopback carries 4 Mbit a second.
TEST_F(RanksObserved, ASlowNetworkIsNamedByTheVerdict) {
  Process::Start start =
      place_.start(with_ranks("run", 2,
                              {"--set", "train.time_limit=10s", "--set", "train.epochs=100000",
                               "--set", "checkpoint.every=1h", "--set", "train.evaluate_every=0"}));
  std::vector<std::string> command = {
      "unshare",
      "--net",
      "sh",
      "-c",
      "ip link set lo mtu 1500 up && "
      "tc qdisc add dev lo root tbf rate 4mbit burst 16kb latency 1s && exec \"$@\"",
      "sh"};
  command.insert(command.end(), start.command.begin(), start.command.end());
  start.command = command;
  const Finished finished = run_to_end(start);
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  const nlohmann::json report = place_.report("run");
  EXPECT_THAT(report["verdict"].get<std::string>(), StartsWith("network-bound: "));
  EXPECT_GT(report["ranks"]["scaling"]["communication"], 0.2);
}

// A machine that others use as well can make a straggler at any moment; three times in a row it
// does not, unless the verdict sees what is not there.
TEST_F(RanksObserved, WithNeitherPlantedNeitherIsNamed) {
  std::string said;
  for (const std::string name : {"a", "b", "c"}) {
    const Finished finished = place_.tern(with_work(name, "10s"));
    ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
    const nlohmann::json report = place_.report(name);
    const std::string verdict = report["verdict"];
    if (!verdict.starts_with("network-bound") && !verdict.starts_with("straggler-bound: machine")) {
      return;
    }
    said += report["ranks"].dump() + "\n" + verdict + "\n";
  }
  ADD_FAILURE() << said;
}

TEST_F(RanksObserved, ARankThatStopsIsNamedByTheOthersBeforeItIsCalledHung) {
  Process process(place_.start(
      with_ranks("run", 3, {"--set", "train.epochs=100000", "--set", "ranks.timeout=60s"})));
  ASSERT_TRUE(wait_until([&] {
    return ranks_of("run").size() == 3 && place_.steps_recorded("run") > 20;
  })) << process.err_so_far();
  const pid_t stopped = ranks_of("run")[2];
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  const std::string who = "machine 0, rank 2 (pid " + std::to_string(stopped) + ")";
  const std::string what = who + " has not come, and says nothing";
  // The leader's line, and that of the other one.
  EXPECT_TRUE(wait_until([&] {
    const std::string err = process.err_so_far();
    return err.find("rank 0 waits for") != std::string::npos &&
           err.find("rank 1 waits for") != std::string::npos && err.find(what) != std::string::npos;
  })) << process.err_so_far();
  ASSERT_EQ(kill(stopped, SIGCONT), 0);
  const int64_t steps = place_.steps_recorded("run");
  EXPECT_TRUE(wait_until([&] { return place_.steps_recorded("run") > steps; }))
      << process.err_so_far();
  process.signal(SIGTERM);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit_code, kExitPreempted) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("goes on"));
  EXPECT_EQ(place_.report("run")["ranks"]["lost"], 0) << "nobody was given up";
}

TEST_F(RanksObserved, ALossThatExplodesRollsAllRanksBack) {
  const Finished finished = place_.tern(with_ranks(
      "run", 2, {"--set", "train.explosion=0.1", "--set", "train.on_divergence=roll_back"}));
  EXPECT_NE(finished.exit_code, kExitDone);
  const auto records = place_.ledger("run", "diverged");
  ASSERT_EQ(records.size(), 4U) << finished.err;
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(records[i]["done"], "rolled_back");
  EXPECT_EQ(records[3]["done"], "stopped");
  EXPECT_DOUBLE_EQ(records[3]["rate_factor"], 0.125);
}

}  // namespace
}  // namespace tern
