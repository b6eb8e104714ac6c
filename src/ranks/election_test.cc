// Stories of machines that lose each other and find each other again, in simulated time.
#include "ranks/election.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace tern {
namespace {

using Doing = PeerState::Doing;

// Machines that tell each other their state every 100 ms, and see at once who is gone.
class ElectionTest : public testing::Test {
 protected:
  struct Machine {
    std::optional<Election> election;  // none: it is dead
    Doing doing = Doing::resting;
  };

  void have(int64_t machines) {
    machines_.resize(static_cast<size_t>(machines));
    for (int64_t machine = 0; machine < machines; ++machine) boot(machine);
  }
  Machine& at(int64_t machine) { return machines_[static_cast<size_t>(machine)]; }
  void boot(int64_t machine, Doing doing = Doing::resting) {
    at(machine).election.emplace(
        Election::Rules{.machine = machine, .machines = static_cast<int64_t>(machines_.size())});
    at(machine).doing = doing;
  }
  void all_do(Doing doing) {
    for (Machine& machine : machines_) machine.doing = doing;
  }
  void kill(int64_t machine) {
    at(machine).election.reset();
    for (Machine& other : machines_) {
      if (other.election) other.election->went(machine);
    }
  }
  void cut(int64_t a, int64_t b) {
    cuts_.insert({std::min(a, b), std::max(a, b)});
    at(a).election->went(b);
    at(b).election->went(a);
  }
  void heal() { cuts_.clear(); }

  void pass(Milliseconds time) {
    for (const Nanoseconds end = now_ + time; now_ < end; now_ += Milliseconds(100)) {
      for (int64_t from = 0; from < static_cast<int64_t>(machines_.size()); ++from) {
        for (int64_t to = 0; to < static_cast<int64_t>(machines_.size()); ++to) tell(from, to);
      }
      for (Machine& machine : machines_) {
        if (!machine.election) continue;
        machine.election->doing(machine.doing);
        machine.election->review(now_);
      }
    }
  }
  void tell(int64_t from, int64_t to) {
    const bool is_cut = cuts_.contains({std::min(from, to), std::max(from, to)});
    if (from == to || is_cut || !at(from).election || !at(to).election) return;
    at(to).election->told({.machine = from,
                           .term = at(from).election->term(),
                           .hub = at(from).election->hub(),
                           .doing = at(from).doing});
  }

  // "0:1 0:1 -:1": whom each machine follows, and in which term; "x" for a dead one.
  std::string follow() {
    std::string all;
    for (Machine& machine : machines_) {
      if (!all.empty()) all += ' ';
      if (!machine.election) {
        all += 'x';
        continue;
      }
      const int64_t hub = machine.election->hub();
      all += fmt::format("{}:{}", hub < 0 ? "-" : std::to_string(hub), machine.election->term());
    }
    return all;
  }

  std::vector<Machine> machines_;
  std::set<std::pair<int64_t, int64_t>> cuts_;
  Nanoseconds now_{0};
};

constexpr Milliseconds kSoon{300};
constexpr Milliseconds kAWhile{30'000};

TEST_F(ElectionTest, AMachineAloneIsItsOwnHubAtOnce) {
  have(1);
  pass(Milliseconds(100));
  EXPECT_EQ(follow(), "0:1");
}

TEST_F(ElectionTest, WhenAllAreHereTheLowestIsTheHubAtOnce) {
  have(3);
  pass(kSoon);
  EXPECT_EQ(follow(), "0:1 0:1 0:1");
  pass(kAWhile);
  EXPECT_EQ(follow(), "0:1 0:1 0:1");
}

TEST_F(ElectionTest, OneThatDoesNotComeIsWaitedForAndNotForEver) {
  have(3);
  kill(0);
  pass(Milliseconds(9'000));
  EXPECT_EQ(follow(), "x -:0 -:0");
  pass(Milliseconds(2'000));
  EXPECT_EQ(follow(), "x 1:1 1:1");
  boot(0);
  pass(kSoon);
  EXPECT_EQ(follow(), "1:1 1:1 1:1");
}

TEST_F(ElectionTest, WhenTheHubIsLostTheNextOneTakesOverSoon) {
  have(3);
  pass(kSoon);
  all_do(Doing::working);
  kill(0);
  pass(Milliseconds(200));
  EXPECT_EQ(follow(), "x -:1 -:1");
  pass(Milliseconds(400));
  EXPECT_EQ(follow(), "x 1:2 1:2");
  kill(1);
  pass(Milliseconds(600));
  EXPECT_EQ(follow(), "x x 2:3");
}

TEST_F(ElectionTest, AMachineThatIsStartedAgainFollowsTheHubThatIsThere) {
  have(3);
  pass(kSoon);
  all_do(Doing::working);
  kill(0);
  boot(0);  // before anybody has become hub: it rests, so it does not
  pass(Milliseconds(1'000));
  EXPECT_EQ(follow(), "1:2 1:2 1:2");
  kill(2);
  boot(2);
  pass(kAWhile);
  EXPECT_EQ(follow(), "1:2 1:2 1:2");
}

TEST_F(ElectionTest, AfterACutIsHealedOneHubIsLeft) {
  have(3);
  pass(kSoon);
  all_do(Doing::working);
  cut(0, 1);
  cut(0, 2);
  pass(Milliseconds(1'000));
  EXPECT_EQ(follow(), "0:1 1:2 1:2");
  heal();
  pass(kSoon);
  EXPECT_EQ(follow(), "1:2 1:2 1:2");
  pass(kAWhile);
  EXPECT_EQ(follow(), "1:2 1:2 1:2");
}

TEST_F(ElectionTest, OfTwoHubsInTheSameTermTheLowerStays) {
  have(4);
  for (const auto& [a, b] : {std::pair{0, 2}, {0, 3}, {1, 2}, {1, 3}}) cut(a, b);
  pass(Milliseconds(11'000));
  EXPECT_EQ(follow(), "0:1 0:1 2:1 2:1");
  heal();
  pass(kSoon);
  EXPECT_EQ(follow(), "0:1 0:1 0:1 0:1");
}

TEST_F(ElectionTest, OneThatIsCutOffFromTheHubAloneMakesNoOther) {
  have(3);
  pass(kSoon);
  all_do(Doing::working);
  cut(0, 2);
  pass(kAWhile);
  EXPECT_EQ(follow(), "0:1 0:1 -:1");
  heal();
  pass(kSoon);
  EXPECT_EQ(follow(), "0:1 0:1 0:1");
}

TEST_F(ElectionTest, AHubThatHearsOfABetterOneThroughAnotherGivesUp) {
  have(3);
  pass(kSoon);
  all_do(Doing::working);
  cut(0, 1);
  cut(0, 2);
  pass(Milliseconds(1'000));
  cuts_ = {{0, 1}};  // 0 and 1 are hubs; both talk to 2 now
  pass(kAWhile);
  EXPECT_EQ(follow(), "-:2 1:2 1:2");
}

TEST_F(ElectionTest, OneThatWorksGoesBeforeASpareAndASpareBeforeNobody) {
  have(3);
  pass(kSoon);
  at(0).doing = Doing::working;
  at(2).doing = Doing::working;
  kill(0);
  pass(Milliseconds(600));
  EXPECT_EQ(follow(), "x 2:2 2:2");
  kill(2);
  pass(Milliseconds(600));
  EXPECT_EQ(follow(), "x 1:3 x");
}

TEST_F(ElectionTest, OneWhoseRanksHaveEndedIsNotAskedIfAnotherIsThere) {
  have(3);
  pass(kSoon);
  all_do(Doing::working);
  at(1).doing = Doing::leaving;
  kill(0);
  pass(Milliseconds(600));
  EXPECT_EQ(follow(), "x 2:2 2:2");
}

}  // namespace
}  // namespace tern
