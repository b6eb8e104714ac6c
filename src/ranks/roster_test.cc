// Stories as tables: what happens, and what the roster says to it. Members are numbered by the
// order in which they enter; their ids are given where they matter.
#include "ranks/roster.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Line {
  std::string event;     // "enter 1", "join 1 5", "lose 2", "pass 3" (seconds) ...
  std::string expected;  // "1 is 0/2 from - at 5; 2 ...", "over 1", "change 1", "hung 2"
};

std::string words_of(const RosterAction& action) {
  switch (action.kind) {
    case RosterAction::Kind::formed:
      return fmt::format(
          "{} is {}/{} from {} at {}", action.member, action.group.rank, action.group.world,
          action.group.source < 0 ? "-" : std::to_string(action.group.source), action.group.step);
    case RosterAction::Kind::over: return fmt::format("over {}", action.member);
    case RosterAction::Kind::change:
      return fmt::format("{} {}", action.is_wanted ? "change" : "no-change", action.member);
    case RosterAction::Kind::refused: return fmt::format("refused {}", action.member);
    case RosterAction::Kind::hung: return fmt::format("hung {}", action.member);
  }
  return "?";
}

class RosterTest : public testing::Test {
 protected:
  // All who are in the roster give a sign of life as time passes, but for the silent one.
  void pass(int64_t seconds, uint64_t silent = 0) {
    for (int64_t i = 0; i < 10 * seconds; ++i) {
      clock_.advance(Milliseconds(100));
      for (uint64_t member = 1; member < 10; ++member) {
        if (member != silent) roster_->heard(member, clock_.now());
      }
      roster_->tick(clock_.now());
    }
  }

  void happen(const std::string& event) {
    std::istringstream words(event);
    std::string what;
    uint64_t member = 0;
    words >> what >> member;
    const Nanoseconds now = clock_.now();
    if (what == "enter") {
      int64_t id = static_cast<int64_t>(member);
      words >> id;
      roster_->enter(member, {.machine = 0, .id = id, .pid = 100 + id}, now);
    } else if (what == "join") {
      RankJoin join{.step = -1, .agreement = "a", .settings = "x = 1\n"};
      for (int64_t* field : {&join.step, &join.lease, &join.generation, &join.rank}) {
        if (int64_t number = 0; words >> number) *field = number;
      }
      roster_->join(member, join, now);
    } else if (what == "withdraw") {
      roster_->withdraw(member, now);
    } else if (what == "leave") {
      roster_->leave(member, now);
    } else if (what == "lose" || what == "cut") {
      roster_->lose(member, what == "lose", now);
    } else if (what == "expect") {
      roster_->expect(static_cast<int64_t>(member), 3, now);
    } else if (what == "pass") {
      pass(static_cast<int64_t>(member));
    } else if (what == "silent") {  // 15 seconds without a word of it
      pass(15, member);
    } else {
      ADD_FAILURE() << "what is '" << event << "'?";
    }
  }

  std::string said() {
    std::string all;
    for (const RosterAction& action : roster_->take_actions()) {
      all += (all.empty() ? "" : "; ") + words_of(action);
    }
    return all;
  }

  void tell(const RosterRules& rules, const std::vector<Line>& story) {
    roster_.emplace(rules);
    for (size_t i = 0; i < story.size(); ++i) {
      happen(story[i].event);
      EXPECT_EQ(said(), story[i].expected) << "line " << i << ": " << story[i].event;
    }
  }

  SimClock clock_;
  std::optional<Roster> roster_;
};

constexpr RosterRules kTwo{.expected = 2, .min = 1, .max = 2};
constexpr RosterRules kThree{.expected = 3, .min = 1, .max = 3};

const std::vector<Line> kThreeRunning = {
    {"enter 1", ""},
    {"enter 2", ""},
    {"enter 3", ""},
    {"join 1", ""},
    {"join 2", ""},
    {"join 3", "1 is 0/3 from - at -1; 2 is 1/3 from - at -1; 3 is 2/3 from - at -1"}};

std::vector<Line> then(std::vector<Line> before, const std::vector<Line>& after) {
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

TEST_F(RosterTest, RanksGoByIdWhateverTheOrderOfJoining) {
  tell(kThree, {{"enter 1 7", ""},
                {"enter 2 5", ""},
                {"enter 3 6", ""},
                {"join 3", ""},
                {"join 1", ""},
                {"join 2", "2 is 0/3 from - at -1; 3 is 1/3 from - at -1; 1 is 2/3 from - at -1"}});
}

TEST_F(RosterTest, AtTheStartAllAreWaitedForOrAGracePasses) {
  tell(kTwo, {{"enter 1", ""},
              {"join 1", ""},
              {"pass 9", ""},
              {"pass 2", "1 is 0/1 from - at -1"},
              {"enter 2", ""},
              {"join 2", "change 1"}});
}

TEST_F(RosterTest, OneThatIsGivenUpIsNotWaitedForAtTheStart) {
  tell(kThree, {{"enter 1", ""},
                {"enter 2", ""},
                {"join 1", ""},
                {"join 2", ""},
                {"expect 2", "1 is 0/2 from - at -1; 2 is 1/2 from - at -1"}});
}

TEST_F(RosterTest, ALossWhileFormingIsWaitedForAgain) {
  tell(kTwo, {{"enter 1", ""},
              {"enter 2", ""},
              {"join 1", ""},
              {"lose 1", ""},
              {"join 2", ""},
              {"enter 3 1", ""},
              {"join 3", "3 is 0/2 from - at -1; 2 is 1/2 from - at -1"}});
}

TEST_F(RosterTest, ALossWhileRunningEndsTheGenerationAndTheRestGoOnAtOnce) {
  tell(kThree, then(kThreeRunning, {{"lose 2", "over 1; over 3"},
                                    {"join 3 8", ""},
                                    {"join 1 8", "1 is 0/2 from - at 8; 3 is 1/2 from - at 8"}}));
}

TEST_F(RosterTest, ASurvivorThatIsBehindTakesTheStateOfTheFurthest) {
  tell(kThree, then(kThreeRunning, {{"lose 3", "over 1; over 2"},
                                    {"join 1 7", ""},
                                    {"join 2 8", "1 is 0/2 from 1 at 8; 2 is 1/2 from 1 at 8"}}));
}

TEST_F(RosterTest, WhenTheLeaderIsLostTheNextRankLeads) {
  tell(kThree, then(kThreeRunning, {{"lose 1", "over 2; over 3"},
                                    {"join 2 4", ""},
                                    {"join 3 4", "2 is 0/2 from - at 4; 3 is 1/2 from - at 4"},
                                    // The old leader comes back and does not lead again.
                                    {"enter 4 1", ""},
                                    {"join 4", "change 2; change 3"},
                                    {"join 2 9", ""},
                                    {"join 3 9",
                                     "2 is 0/3 from 0 at 9; 3 is 1/3 from 0 at 9; "
                                     "4 is 2/3 from 0 at 9"}}));
}

TEST_F(RosterTest, ANewcomerWaitsForTheStepBoundaryAndTakesTheState) {
  tell(kTwo, {{"enter 1", ""},
              {"join 1 3", "1 is 0/1 from - at 3"},  // it has a state: nobody is waited for
              {"enter 2", ""},
              {"pass 20", ""},
              {"join 2", "change 1"},
              {"pass 20", ""},
              {"join 1 5", "1 is 0/2 from 0 at 5; 2 is 1/2 from 0 at 5"}});
}

TEST_F(RosterTest, ANewcomerThatIsLostIsNoLongerWanted) {
  tell(kTwo, {{"enter 1", ""},
              {"join 1 3", "1 is 0/1 from - at 3"},
              {"enter 2", ""},
              {"join 2", "change 1"},
              {"lose 2", "no-change 1"}});
}

TEST_F(RosterTest, ASpareStepsInWhenARankIsLostAndNotBefore) {
  tell(kTwo, {{"enter 1", ""},
              {"enter 2", ""},
              {"enter 3", ""},
              {"join 1", ""},
              {"join 2", "1 is 0/2 from - at -1; 2 is 1/2 from - at -1"},
              {"join 3", ""},
              {"lose 1", "over 2"},
              // Who is left steps first: the spare's first step takes its time.
              {"join 2 6", "2 is 0/1 from - at 6; change 2"},
              {"join 2 7", "2 is 0/2 from 0 at 7; 3 is 1/2 from 0 at 7"}});
}

TEST_F(RosterTest, ASpareDoesNotBeginAgainWhatTheOthersHaveLeft) {
  tell(kTwo, {{"enter 1", ""},
              {"enter 2", ""},
              {"enter 3", ""},
              {"join 1", ""},
              {"join 2", "1 is 0/2 from - at -1; 2 is 1/2 from - at -1"},
              {"join 3", ""},
              {"leave 1", ""},
              {"leave 2", ""},
              {"pass 60", ""},
              // One that was started again, since it left with a failure that may pass.
              {"enter 4 1", ""},
              {"join 4", "4 is 0/2 from - at -1; 3 is 1/2 from - at -1"}});
}

TEST_F(RosterTest, ASpareStepsInAtOnceWhereTooFewAreLeft) {
  tell({.expected = 2, .min = 2, .max = 2},
       {{"enter 1", ""},
        {"enter 2", ""},
        {"enter 3", ""},
        {"join 1", ""},
        {"join 2", "1 is 0/2 from - at -1; 2 is 1/2 from - at -1"},
        {"join 3", ""},
        {"lose 1", "over 2"},
        {"join 2 6", "2 is 0/2 from 0 at 6; 3 is 1/2 from 0 at 6"}});
}

TEST_F(RosterTest, MoreThanTheMaximumAreNotTakenIn) {
  tell({.expected = 5, .min = 1, .max = 2},
       {{"enter 1", ""},
        {"enter 2", ""},
        {"enter 3", ""},
        {"join 3", ""},
        {"join 1", "1 is 0/2 from - at -1; 3 is 1/2 from - at -1"},
        {"join 2", ""}});
}

TEST_F(RosterTest, WithFewerThanTheMinimumAReplacementIsWaitedFor) {
  tell({.expected = 2, .min = 2, .max = 2},
       {{"enter 1", ""},
        {"join 1", ""},
        {"pass 30", ""},
        {"enter 2", ""},
        {"join 2", "1 is 0/2 from - at -1; 2 is 1/2 from - at -1"},
        {"lose 2", "over 1"},
        {"join 1 4", ""},
        {"pass 100", ""},
        {"enter 3 2", ""},
        {"join 3", "1 is 0/2 from 0 at 4; 3 is 1/2 from 0 at 4"}});
}

TEST_F(RosterTest, AtAnAgreedBoundaryTheOthersComeByThemselves) {
  tell(kThree, then(kThreeRunning, {{"lose 3", "over 1; over 2"},
                                    {"join 1 5", ""},
                                    {"join 2 5", "1 is 0/2 from - at 5; 2 is 1/2 from - at 5"},
                                    {"enter 4 3", ""},
                                    {"join 4", "change 1; change 2"},
                                    {"join 2 6", ""},  // nobody is told: rank 0 is still busy
                                    {"pass 1", ""},
                                    {"join 1 6",
                                     "1 is 0/3 from 0 at 6; 2 is 1/3 from 0 at 6; "
                                     "4 is 2/3 from 0 at 6"}}));
}

TEST_F(RosterTest, OneThatDoesNotComeToTheBoundaryIsTold) {
  tell(kTwo, {{"enter 1", ""},
              {"enter 2", ""},
              {"join 1 1", "1 is 0/1 from - at 1"},
              {"join 2", "change 1"},
              {"join 1 2", "1 is 0/2 from 0 at 2; 2 is 1/2 from 0 at 2"},
              {"leave 2", ""},
              {"pass 1", ""},
              {"pass 2", "over 1"},
              {"join 1 3", "1 is 0/1 from - at 3"}});
}

TEST_F(RosterTest, ARankWhoseGenerationFailedEndsItForAll) {
  tell(kThree,
       then(kThreeRunning,
            {{"join 2 5", "over 1; over 3"},
             {"join 1 5", ""},
             {"join 3 5", "1 is 0/3 from - at 5; 2 is 1/3 from - at 5; 3 is 2/3 from - at 5"}}));
}

TEST_F(RosterTest, RanksWithoutStepBoundariesAreToldAtOnceThatOneHasLeft) {
  RosterRules rules = kThree;
  rules.boundary_grace = Nanoseconds(0);
  tell(rules, then(kThreeRunning, {{"leave 1", "over 2; over 3"},
                                   {"expect 2", ""},
                                   {"join 3", ""},
                                   {"join 2", "2 is 0/2 from - at -1; 3 is 1/2 from - at -1"}}));
}

TEST_F(RosterTest, WhoeverLeavesOnPurposeIsNotWaitedFor) {
  tell(kThree, then(kThreeRunning, {{"leave 1", ""},
                                    {"join 3 9", ""},
                                    {"join 2 9", "2 is 0/2 from - at 9; 3 is 1/2 from - at 9"},
                                    {"leave 2", ""},
                                    {"leave 3", ""},
                                    {"pass 100", ""}}));
}

TEST_F(RosterTest, ALossAtTheBoundaryTellsTheOthersAtOnce) {
  tell(kThree, then(kThreeRunning,
                    {{"leave 1", ""}, {"lose 2", "over 3"}, {"join 3 9", "3 is 0/1 from - at 9"}}));
}

TEST_F(RosterTest, ASilentRankIsHung) {
  tell(kThree, then(kThreeRunning, {{"pass 100", ""},
                                    {"silent 2", "hung 2; over 1; over 3"},
                                    {"join 1 4", ""},
                                    {"join 3 4", "1 is 0/2 from - at 4; 3 is 1/2 from - at 4"}}));
}

TEST_F(RosterTest, ASurvivorThatNeverComesBackIsHung) {
  tell(kThree, then(kThreeRunning, {{"lose 3", "over 1; over 2"},
                                    {"join 2 4", ""},
                                    {"pass 59", ""},
                                    {"pass 2", "hung 1; 2 is 0/1 from - at 4"}}));
}

TEST_F(RosterTest, WhoSavesForThoseThatHaveLeftIsNotHung) {
  const auto left = then(kThreeRunning, {{"leave 2", ""}, {"pass 100", "over 1; over 3"}});
  // One that was started again is no reason to hurry.
  tell(kThree, then(left, {{"leave 3", ""}, {"enter 4", ""}, {"join 4", ""}, {"pass 3490", ""}}));
  tell(kThree, then(left, {{"leave 3", ""}, {"silent 1", "hung 1"}}));
  // From when somebody of the generation waits.
  tell(kThree, then(left, {{"join 3 4", ""}, {"pass 59", ""}}));
  happen("pass 2");
  EXPECT_EQ(said(), "hung 1; 3 is 0/1 from - at 4");
}

TEST_F(RosterTest, ASupervisorThatWasStoppedItselfBlamesNobody) {
  tell(kThree, kThreeRunning);
  pass(1);
  clock_.advance(std::chrono::seconds(1000));
  roster_->tick(clock_.now());
  EXPECT_EQ(said(), "");
  pass(5);
  EXPECT_EQ(said(), "");
}

TEST_F(RosterTest, AJoinThatIsTakenBackCountsNoLonger) {
  tell(kTwo, {{"enter 1", ""},
              {"enter 2", ""},
              {"join 1", ""},
              {"withdraw 1", ""},
              {"join 2", ""},
              {"join 1", "1 is 0/2 from - at -1; 2 is 1/2 from - at -1"}});
}

TEST_F(RosterTest, WhenAllAreLostTheNextBeginTogetherAgain) {
  tell(kTwo, {{"enter 1", ""},
              {"enter 2", ""},
              {"join 1", ""},
              {"join 2", "1 is 0/2 from - at -1; 2 is 1/2 from - at -1"},
              {"lose 1", "over 2"},
              {"lose 2", ""},
              {"enter 3 1", ""},
              {"enter 4 2", ""},
              {"join 4", ""},
              {"join 3", "3 is 0/2 from - at -1; 4 is 1/2 from - at -1"}});
}

// A hub takes over from another: those who come have been in its generations. "join" is told with
// step, lease, generation and rank here.
constexpr RosterRules kTakingOver{
    .expected = 3, .min = 1, .max = 4, .first_grace = std::chrono::seconds(2)};

TEST_F(RosterTest, AnotherHubsGroupGoesOnInItsOrderAndNumbers) {
  tell(kTakingOver,
       {{"enter 1", ""},
        {"enter 2", ""},
        {"enter 3", ""},
        {"join 1 8 5 40 2", ""},
        {"pass 1", ""},
        {"join 2 8 5 40 1", ""},
        {"join 3 8 5 39 0", "2 is 0/3 from - at 8; 1 is 1/3 from - at 8; 3 is 2/3 from - at 8"}});
  EXPECT_EQ(roster_->generation(), 41);
}

TEST_F(RosterTest, WhoOfAnotherHubsGroupDoesNotComeIsNotWaitedForLong) {
  tell(kTakingOver, {{"enter 1", ""},
                     {"join 1 8 5 40 1", ""},
                     {"pass 1", ""},
                     {"pass 2", "1 is 0/1 from - at 8"},
                     {"lose 1", ""},
                     {"enter 2", ""},
                     {"join 2 9 5 40 2", "2 is 0/1 from - at 9"}});
}

TEST_F(RosterTest, TheNewestLeaseIsTheStateWhateverTheStep) {
  tell(kTakingOver,
       {{"enter 1", ""},
        {"enter 2", ""},
        {"enter 3", ""},
        {"join 1 20 5 7 0", ""},
        {"join 2 12 6 9 0", ""},
        {"join 3", "2 is 0/3 from 0 at 12; 1 is 1/3 from 0 at 12; 3 is 2/3 from 0 at 12"}});
}

TEST_F(RosterTest, EqualStepsOfTwoLeasesAreNotTheSameState) {
  tell({.expected = 2, .min = 1, .max = 2},
       {{"enter 1", ""},
        {"enter 2", ""},
        {"join 1 8 5", "1 is 0/1 from - at 8"},
        {"join 2 8 6", "change 1"},
        {"join 1 8 5", "1 is 0/2 from 1 at 8; 2 is 1/2 from 1 at 8"}});
}

// Whether the leader of the generation that forms may take the run over.
TEST_F(RosterTest, TheRunIsTakenFromADeadLeaderAndNotFromOneThatIsCutOff) {
  const auto may_take_over_after = [this](const std::string& end_of_leader, bool has_most) {
    roster_.emplace(kTwo);
    for (const char* event : {"enter 1", "enter 2", "join 1", "join 2"}) happen(event);
    roster_->take_actions();
    roster_->allow_take_over(has_most);
    happen(end_of_leader);
    happen("join 2 5");
    for (const RosterAction& action : roster_->take_actions()) {
      if (action.kind == RosterAction::Kind::formed) return action.group.may_take_over;
    }
    ADD_FAILURE() << "nothing has formed after " << end_of_leader;
    return false;
  };
  EXPECT_TRUE(may_take_over_after("lose 1", false));
  EXPECT_TRUE(may_take_over_after("leave 1", false));
  EXPECT_FALSE(may_take_over_after("cut 1", false));
  EXPECT_FALSE(may_take_over_after("silent 1", false));
  EXPECT_TRUE(may_take_over_after("cut 1", true));
}

// Most machines are on the other side of a cut, and have taken the run: that a leader who was left
// behind has noticed and ended says nothing of theirs.
TEST_F(RosterTest, TheDeathOfALeaderThatWasCutOffGivesTheRunToNobody) {
  for (const char* end_of_leader : {"lose 2", "leave 2"}) {
    roster_.emplace(kTwo);
    for (const char* event : {"enter 1", "enter 2", "join 1", "join 2"}) happen(event);
    roster_->allow_take_over(false);
    for (const char* event : {"cut 1", "join 2 5"}) happen(event);
    roster_->take_actions();
    happen(end_of_leader);
    for (const char* event : {"enter 3", "join 3", "expect 1"}) happen(event);
    int formed = 0;
    for (const RosterAction& action : roster_->take_actions()) {
      if (action.kind != RosterAction::Kind::formed) continue;
      ++formed;
      EXPECT_FALSE(action.group.may_take_over) << end_of_leader;
    }
    EXPECT_EQ(formed, 1) << end_of_leader;
  }
}

TEST_F(RosterTest, EventsOfTheUnknownAreIgnored) {
  tell(kTwo, {{"join 5 3", ""}, {"lose 5", ""}, {"leave 5", ""}, {"withdraw 5", ""}});
}

TEST_F(RosterTest, SettingsThatDifferAreNamedWithBothValues) {
  roster_.emplace(kTwo);
  happen("enter 1");
  happen("enter 2");
  const Nanoseconds now = clock_.now();
  roster_->join(1, {.agreement = "a", .settings = "[train]\nbatch = 64\nseed = 1\n"}, now);
  roster_->join(2, {.agreement = "b", .settings = "[train]\nbatch = 32\nseed = 1\n"}, now);
  const std::vector<RosterAction> actions = roster_->take_actions();
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, RosterAction::Kind::refused);
  EXPECT_EQ(actions[0].member, 2U);
  EXPECT_THAT(actions[0].why, AllOf(HasSubstr("train.batch is 64 there and 32 here"),
                                    HasSubstr("(pid 101)"), HasSubstr("same run file")));
  // The one that was refused is not waited for in another generation.
  happen("expect 1");
  EXPECT_EQ(said(), "1 is 0/1 from - at -1");
}

TEST(SettingsDifference, NamesTheFirstFewAndWhatIsMissing) {
  EXPECT_EQ(settings_difference("a = 1\n", "a = 1\n"), "");
  EXPECT_EQ(settings_difference("a = 1\n[s]\nb = 2\n", "a = 1\n[s]\nc = 2\n"),
            "s.b is 2 there and not set here, s.c is not set there and 2 here");
  EXPECT_EQ(settings_difference("a = 1\nb = 1\nc = 1\nd = 1\n", "a = 2\nb = 2\nc = 2\nd = 2\n"),
            "a is 1 there and 2 here, b is 1 there and 2 here, c is 1 there and 2 here and more");
  EXPECT_EQ(settings_difference("[[p]]\nx = \"\x1b[2J\"\n", "[[p]]\nx = 1\n"),
            "p.x is \"?[2J\" there and 1 here");
  EXPECT_EQ(settings_difference("[[[\n = \n[", "]"), "");
}

}  // namespace
}  // namespace tern
