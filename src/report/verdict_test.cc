#include "report/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A run of 100 seconds, so that seconds are percents; what is not given is compute.
TimeUse hundred_seconds(std::initializer_list<std::pair<Span, double>> given) {
  TimeUse use = {.wall_seconds = 100, .steps = 1000};
  use.seconds[Span::compute] = 100;
  for (const auto& [span, seconds] : given) {
    use.seconds[span] += seconds;
    use.seconds[Span::compute] -= seconds;
  }
  return use;
}

TEST(Verdict, ComputeBoundSaysThatTheDataWasReady) {
  EXPECT_EQ(verdict(hundred_seconds({{Span::fetch, 0.3}, {Span::other, 4}, {Span::start, 4.7}})),
            "compute-bound: 91 % of the time is arithmetic; the data was ready in time (wait 0.3 "
            "%)");
}

TEST(Verdict, ComputeBoundNamesTheLargestLossThatIsWorthAWord) {
  EXPECT_EQ(verdict(hundred_seconds({{Span::evaluation, 12.5}, {Span::start, 6}})),
            "compute-bound: 82 % of the time is arithmetic; the data was ready in time (wait 0.0 "
            "%); evaluation took 12 %: without that the run would be 1.14 times as fast");
  const std::string waited = verdict(hundred_seconds({{Span::decode, 15}}));
  EXPECT_THAT(waited, HasSubstr("the wait for data took 15 %"));
  EXPECT_THAT(waited, Not(HasSubstr("ready in time")));
}

TEST(Verdict, DataBoundNamesTheStageTheGainAndWhatToTry) {
  TimeUse use = hundred_seconds({{Span::fetch, 40}, {Span::decode, 20}, {Span::queue, 2}});
  use.loader_threads = 2;
  use.cores = 8;
  EXPECT_EQ(verdict(use),
            "data-bound: 62 % of the time the step waited for data, mostly while it was fetched; "
            "without the wait the run would be 2.6 times as fast; try loader.threads above 2, or "
            "data on a faster disk (from a bucket: data.stage)");
  use.loader_threads = -1;
  EXPECT_THAT(verdict(use), HasSubstr("; try more loader.threads, or"));
}

TEST(Verdict, MoreThreadsThanCoresHelpWithFetchingOnly) {
  TimeUse use = hundred_seconds({{Span::fetch, 30}});
  use.loader_threads = use.cores = 8;
  EXPECT_THAT(verdict(use), HasSubstr("try loader.threads above 8"));
  use = hundred_seconds({{Span::decode, 30}});
  use.loader_threads = use.cores = 8;
  EXPECT_THAT(verdict(use), HasSubstr("(8) has every core already: try a machine with more"));
  use.cores = 9;
  EXPECT_THAT(verdict(use), HasSubstr("try loader.threads above 8"));
}

TEST(Verdict, EveryStageOfTheDataHasItsWords) {
  EXPECT_THAT(verdict(hundred_seconds({{Span::decode, 30}})), HasSubstr("while it was decoded"));
  EXPECT_THAT(verdict(hundred_seconds({{Span::augment, 30}})), HasSubstr("while it was augmented"));
  EXPECT_THAT(verdict(hundred_seconds({{Span::queue, 30}})), HasSubstr("no loader thread"));
}

TEST(Verdict, TheStagesOfTheWaitCountTogether) {
  const TimeUse use = hundred_seconds({{Span::fetch, 6},
                                       {Span::decode, 7},
                                       {Span::augment, 6},
                                       {Span::queue, 6},
                                       {Span::start, 22}});
  EXPECT_THAT(verdict(use), StartsWith("data-bound: 25 %"));
}

TEST(Verdict, EvaluationBound) {
  EXPECT_EQ(verdict(hundred_seconds({{Span::evaluation, 50}})),
            "evaluation-bound: 50 % of the time went to accuracy on the test data; without it the "
            "run would be 2.0 times as fast; try a larger train.evaluate_every");
}

TEST(Verdict, CheckpointBound) {
  const std::string text = verdict(hundred_seconds({{Span::checkpoint, 30}}));
  EXPECT_THAT(text, StartsWith("checkpoint-bound: 30 % of the time went to saving"));
  EXPECT_THAT(text, HasSubstr("1.43 times as fast; try a longer checkpoint.every"));
}

TEST(Verdict, StartBoundTellsAShortRunFromOneOfManyProcesses) {
  TimeUse use = hundred_seconds({{Span::start, 80}});
  EXPECT_THAT(verdict(use), StartsWith("start-bound: 80 % of the time went before the first step"));
  EXPECT_THAT(verdict(use), HasSubstr("5.0 times as fast, and a longer run hides it"));
  use.processes = 12;
  EXPECT_THAT(verdict(use), HasSubstr("12 processes before their first steps"));
}

TEST(Verdict, TheHostThatCannotKeepUpIsNamedOnAGpuOnly) {
  TimeUse use = hundred_seconds({{Span::other, 45}});
  EXPECT_THAT(verdict(use), StartsWith("held up: 45 % of the time went to records"));
  use.is_on_gpu = true;
  EXPECT_THAT(verdict(use),
              StartsWith("launch-bound: 45 % of the time the GPU waited for the host"));
  EXPECT_THAT(verdict(use), HasSubstr("1.82 times as fast"));
}

TEST(Verdict, AGpuThatRunsDryWaitsForItsHostWhateverItsEventsSay) {
  TimeUse use = hundred_seconds({});
  use.is_on_gpu = true;
  use.dry_share = 0.97;
  EXPECT_THAT(verdict(use),
              StartsWith("launch-bound: before 97 % of its steps the GPU had nothing"));
  use.seconds[Span::fetch] = 6;
  EXPECT_THAT(verdict(use), StartsWith("compute-bound")) << "the wait for data let it run dry";
  use.seconds[Span::fetch] = 0;
  use.dry_share = 0.49;
  EXPECT_THAT(verdict(use), StartsWith("compute-bound"));
}

TEST(Verdict, CopyBound) {
  EXPECT_THAT(verdict(hundred_seconds({{Span::copy, 25}})), StartsWith("copy-bound: 25 %"));
}

TEST(Verdict, AFifthBoundsARunAndLessDoesNot) {
  EXPECT_THAT(verdict(hundred_seconds({{Span::fetch, 20}})), StartsWith("data-bound"));
  EXPECT_THAT(verdict(hundred_seconds({{Span::fetch, 19.9}})), StartsWith("compute-bound"));
  EXPECT_THAT(verdict(hundred_seconds({{Span::fetch, 40}, {Span::evaluation, 41}})),
              StartsWith("evaluation-bound"));
}

TEST(Verdict, ManySmallLossesAreNotCalledComputeBound) {
  const TimeUse use = hundred_seconds(
      {{Span::fetch, 15}, {Span::evaluation, 16}, {Span::start, 15}, {Span::checkpoint, 15}});
  EXPECT_THAT(verdict(use), StartsWith("bound by nothing alone: 39 % of the time is arithmetic; "
                                       "evaluation took 16 %"));
}

TEST(Verdict, TooLittleToTell) {
  TimeUse use = hundred_seconds({});
  use.steps = 0;
  EXPECT_EQ(verdict(use), "too little to tell: no step was done");
  EXPECT_THAT(verdict({.wall_seconds = 100, .steps = 9}), StartsWith("too little to tell"));
  EXPECT_EQ(verdict({}), "too little to tell: no step was done");

  TimeUse part = hundred_seconds({});
  part.wall_seconds = 201;
  EXPECT_THAT(verdict(part), StartsWith("too little to tell: the records say where 50 %"));
  part.wall_seconds = 199;
  EXPECT_THAT(verdict(part), StartsWith("compute-bound: 50 %"));

  TimeUse brief = {.wall_seconds = 1.9, .steps = 50};
  brief.seconds[Span::compute] = 1.9;
  EXPECT_THAT(verdict(brief), StartsWith("too little to tell: the run took 1.9 s"));
}

TEST(Verdict, ARunThatIsAllLossHasNoInfiniteGain) {
  EXPECT_THAT(verdict(hundred_seconds({{Span::start, 100}})), HasSubstr("more than 100 times"));
  EXPECT_THAT(verdict(hundred_seconds({{Span::fetch, 95}})), HasSubstr("20 times as fast"));
}

TEST(Verdict, SpansThatTellMoreThanTheWallTimeAreTheWallTime) {
  TimeUse use = hundred_seconds({{Span::fetch, 50}});
  use.wall_seconds = 1;
  EXPECT_THAT(verdict(use), StartsWith("data-bound: 50 %"));
}

TEST(Verdict, NetworkBoundWhereRanksWaitForGradients) {
  TimeUse use = hundred_seconds({{Span::communication, 40}});
  EXPECT_THAT(verdict(use), StartsWith("network-bound: 40 % of the time gradients were waited for; "
                                       "without that the run would be 1.67 times as fast"));
  // The rank that was a little slower than the others is not what they waited for.
  use.slowest_rank = "rank 1";
  use.slowest_seconds = 3;
  EXPECT_THAT(verdict(use), StartsWith("network-bound: "));
}

TEST(Verdict, StragglerBoundNamesTheRankThatTheOthersWaitFor) {
  TimeUse use = hundred_seconds({{Span::communication, 45}});
  use.slowest_rank = "machine 0, rank 2 (pid 7)";
  use.slowest_seconds = 40;
  use.slowest_ratio = 1.9;
  EXPECT_THAT(verdict(use),
              StartsWith("straggler-bound: machine 0, rank 2 (pid 7) takes 1.9 times as long for a "
                         "step as the others, which wait for it 40 % of the time; without that"));
  // It is the same where the leader, whose records these are, is the slowest and waits for nobody.
  use = hundred_seconds({{Span::communication, 1}});
  use.slowest_rank = "machine 0, rank 0 (pid 5)";
  use.slowest_seconds = 40;
  EXPECT_THAT(verdict(use), StartsWith("straggler-bound: machine 0, rank 0 (pid 5)"));
  // But data that is waited for longer comes first.
  use = hundred_seconds({{Span::fetch, 60}});
  use.slowest_rank = "rank 1";
  use.slowest_seconds = 25;
  EXPECT_THAT(verdict(use), StartsWith("data-bound: "));
}

// What a leader's book says of 100 seconds, 60 of which are arithmetic.
TimeUse waited(const RankWaits& waits) {
  TimeUse use = hundred_seconds({{Span::communication, 40}});
  use.waits = waits;
  return use;
}

TEST(Verdict, TheNetworkAndTheSlowestRankAreToldApart) {
  EXPECT_THAT(verdict(waited({.network_seconds = 38, .straggling_seconds = 2})),
              StartsWith("network-bound: 38 % of the time"));
  TimeUse slow = waited({.network_seconds = 2, .straggling_seconds = 38});
  slow.slowest_rank = "machine 1, rank 2 (pid 7)";
  slow.slowest_seconds = 36;
  slow.slowest_ratio = 1.6;
  EXPECT_THAT(verdict(slow), StartsWith("straggler-bound: machine 1, rank 2 (pid 7) takes 1.6"));
  // Both count, the larger is told.
  slow.waits = RankWaits{.network_seconds = 39, .straggling_seconds = 21};
  slow.slowest_seconds = 20;
  EXPECT_THAT(verdict(slow), StartsWith("network-bound: 39 %"));
}

TEST(Verdict, RanksThatTakeTurnsInBeingLastAreNotBlamedOnOne) {
  TimeUse use = waited({.network_seconds = 5, .straggling_seconds = 30});
  use.slowest_rank = "machine 0, rank 0 (pid 5)";
  use.slowest_seconds = 3;
  EXPECT_THAT(verdict(use), StartsWith("straggler-bound: 30 % of the time ranks waited for the one "
                                       "that came last, each time another"));
}

TEST(Verdict, AGroupThatHadToFormAgainAndAgainIsNoSlowNetwork) {
  EXPECT_THAT(verdict(waited({.network_seconds = 5, .regroup_seconds = 33})),
              StartsWith("regroup-bound: 33 % of the time there was no group"));
}

TEST(Verdict, RanksThatHardlyWaitAreBoundByTheirArithmetic) {
  TimeUse use = hundred_seconds({{Span::communication, 10}});
  use.waits = RankWaits{.network_seconds = 6, .straggling_seconds = 4};
  EXPECT_THAT(verdict(use), StartsWith("compute-bound: 90 %"));
  EXPECT_THAT(verdict(use), HasSubstr("the exchange of gradients took 6.0 %"));
}

}  // namespace
}  // namespace tern
