#include "ranks/staffing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tern {
namespace {

using Doing = PeerState::Doing;

class StaffingTest : public testing::Test {
 protected:
  void is(int64_t machine, Doing doing) { here_[machine] = {.machine = machine, .doing = doing}; }
  std::string after(std::chrono::seconds time) {
    now_ += time;
    return fmt::format("{}", fmt::join(staffing_.review(here_, now_), " "));
  }

  Staffing::Here here_;
  Nanoseconds now_{0};
  Staffing staffing_{2, std::chrono::seconds(5)};
};

constexpr std::chrono::seconds kAtOnce{0};

TEST_F(StaffingTest, TheFirstMachinesWorkAndTheOthersRest) {
  for (const int64_t machine : {0, 1, 2}) is(machine, Doing::resting);
  staffing_.begin(here_);
  EXPECT_EQ(after(kAtOnce), "0 1");
}

TEST_F(StaffingTest, OneThatWasAwayForLongGivesItsPlaceToASpare) {
  is(0, Doing::working);
  is(1, Doing::working);
  is(2, Doing::resting);
  is(3, Doing::resting);
  staffing_.begin(here_);
  here_.erase(1);
  EXPECT_EQ(after(kAtOnce), "0 1");
  EXPECT_EQ(after(std::chrono::seconds(4)), "0 1");
  EXPECT_EQ(after(std::chrono::seconds(2)), "0 2");
  // It comes back and rests.
  is(2, Doing::working);
  is(1, Doing::resting);
  EXPECT_EQ(after(std::chrono::seconds(60)), "0 2");
  // Until another is away.
  here_.erase(0);
  EXPECT_EQ(after(kAtOnce), "0 2");
  EXPECT_EQ(after(std::chrono::seconds(6)), "1 2");
}

TEST_F(StaffingTest, OneThatIsBackInTimeKeepsItsPlace) {
  is(0, Doing::working);
  is(1, Doing::working);
  is(2, Doing::resting);
  staffing_.begin(here_);
  here_.erase(0);
  EXPECT_EQ(after(kAtOnce), "0 1");
  EXPECT_EQ(after(std::chrono::seconds(4)), "0 1");
  is(0, Doing::resting);
  EXPECT_EQ(after(std::chrono::seconds(4)), "0 1");
}

TEST_F(StaffingTest, OneWhoseRanksHaveLeftForGoodIsAway) {
  is(0, Doing::working);
  is(1, Doing::leaving);
  is(2, Doing::resting);
  staffing_.begin(here_);
  after(kAtOnce);
  EXPECT_EQ(after(std::chrono::seconds(6)), "0 2");
}

TEST_F(StaffingTest, ANewHubGoesOnWithThoseThatWork) {
  is(1, Doing::working);
  is(3, Doing::working);
  is(2, Doing::resting);
  staffing_.begin(here_);
  EXPECT_EQ(after(kAtOnce), "1 3");
  here_.erase(3);
  staffing_.begin(here_);  // the hub changes again: 0 has the first right to the place
  EXPECT_EQ(after(kAtOnce), "0 1");
  EXPECT_EQ(after(std::chrono::seconds(6)), "1 2");
}

TEST_F(StaffingTest, WithoutASpareThePlaceIsKept) {
  is(0, Doing::working);
  staffing_.begin(here_);
  after(kAtOnce);
  EXPECT_EQ(after(std::chrono::seconds(600)), "0 1");
  is(2, Doing::resting);
  EXPECT_EQ(after(kAtOnce), "0 2");
}

// Both sides of each cut: at most one may be most.
TEST(Most, OfTwoSidesOfACutAtMostOneHasMostMachinesAndASpareCounts) {
  const auto are = [](std::vector<int64_t> machines, int64_t working, int64_t all) {
    Staffing::Here here;
    Staffing::Here others;
    for (int64_t machine = 0; machine < all; ++machine) {
      const bool is_here = std::ranges::find(machines, machine) != machines.end();
      (is_here ? here : others)[machine] = {.machine = machine};
    }
    EXPECT_FALSE(are_most(here, {}, working, all) && are_most(others, {}, working, all));
    return are_most(here, {}, working, all);
  };
  EXPECT_TRUE(are({0, 1, 2}, 4, 4));
  EXPECT_FALSE(are({0, 1}, 4, 4));
  EXPECT_FALSE(are({0}, 2, 2));
  // A spare has stepped in.
  EXPECT_TRUE(are({0, 2}, 2, 3));
  EXPECT_FALSE(are({1}, 2, 3));
  // It has, and another machine is cut off from the rest.
  EXPECT_TRUE(are({0, 1, 4}, 4, 5));
  // Only the spares are gone.
  EXPECT_TRUE(are({0, 1}, 2, 4));
  EXPECT_TRUE(are({0}, 1, 2));
  EXPECT_FALSE(are({0, 2}, 2, 4));
}

TEST(Most, AMachineThatHasEndedIsOnNobodysSide) {
  const Staffing::Here first = {{0, {.machine = 0}}};
  EXPECT_FALSE(are_most(first, {}, 2, 2));
  EXPECT_TRUE(are_most(first, {1}, 2, 2));
  EXPECT_FALSE(are_most(first, {3}, 4, 4));
  // Half of the living: of those that were to work at first it has more, or not.
  EXPECT_TRUE(are_most(first, {1}, 2, 3));
  EXPECT_FALSE(are_most(first, {1}, 3, 3));
}

}  // namespace
}  // namespace tern
