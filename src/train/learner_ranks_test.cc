// Several ranks train as one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <latch>

#include "train/ring_bytes.h"
#include "train/test_learner.h"
#include "train/test_ranks.h"

namespace tern {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr double kRate = 0.05;

Learner::Setup without_dropout() {
  Learner::Setup setup = small_setup();
  setup.model.dropout = 0;
  return setup;
}

struct Share {
  int64_t begin = 0;
  int64_t end = 0;
};
Share share_of(int64_t samples, int64_t rank, int64_t world) {
  return {rank * samples / world, (rank + 1) * samples / world};
}

// One step of one rank on its share of `whole`.
Result<StepResults> step_of(Learner& learner, const Batch& whole, Share share, int64_t step,
                            RankStep& exchange) {
  exchange.samples_planned = whole.samples();
  exchange.own_samples = share.end - share.begin;
  if (exchange.own_samples > 0) {
    RETURN_IF_ERROR(learner.put(part_of(whole, share.begin, share.end)));
  }
  return learner.step_together(step, kRate, exchange);
}

Bytes state_of(const Learner& learner) {
  const auto bytes = learner.save();
  EXPECT_TRUE(bytes.has_value());
  return bytes.value_or("");
}

class LearnerRanksTest : public testing::Test {
 protected:
  // As tern-train does: Gloo writes to connections that a lost rank has closed.
  LearnerRanksTest() { std::signal(SIGPIPE, SIG_IGN); }

  // One for each rank, made one after the other: seeding is the process's.
  void make_learners(const Learner::Setup& setup, int64_t world) {
    learners_.clear();
    for (int64_t rank = 0; rank < world; ++rank) learners_.push_back(make(setup));
  }

  // Losses of the steps [from, to) with batches of `samples`, taken by all learners together.
  std::vector<double> train(int64_t from, int64_t to, int64_t samples, BucketBytes bytes = {}) {
    std::vector<double> losses(static_cast<size_t>(to - from));
    const auto world = static_cast<int64_t>(learners_.size());
    ranks_.run(world, [&](int64_t rank, Collectives& group) {
      Learner& learner = *learners_[static_cast<size_t>(rank)];
      ASSERT_TRUE(learner.join(&group, bytes));
      for (int64_t step = from; step < to; ++step) {
        RankStep exchange;
        const auto results = step_of(learner, batch_of(step, samples),
                                     share_of(samples, rank, world), step, exchange);
        ASSERT_TRUE(results.has_value()) << results.error().to_string();
        ASSERT_EQ(results->size(), 1U);
        EXPECT_EQ(exchange.samples, samples);
        if (rank == 0) losses[static_cast<size_t>(step - from)] = results->at(0).loss;
      }
      ASSERT_TRUE(learner.join(nullptr));
    });
    return losses;
  }

  std::vector<Bytes> states() const {
    std::vector<Bytes> all;
    for (const auto& learner : learners_) all.push_back(state_of(*learner));
    return all;
  }

  ThreadRanks ranks_;
  std::vector<std::unique_ptr<Learner>> learners_;
};

std::vector<double> losses_alone(Learner& learner, int64_t steps, int64_t samples) {
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    const auto result = train_on(learner, batch_of(step, samples), step, kRate);
    EXPECT_TRUE(result.has_value());
    losses.push_back(result->loss);
  }
  return losses;
}

void expect_near(const std::vector<double>& losses, const std::vector<double>& expected) {
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 2e-5 * expected[i]) << "step " << i + 1;
  }
}

TEST_F(LearnerRanksTest, AnyNumberOfRanksTrainsAsOneAndReplicasAreEqualToTheBit) {
  const auto alone = make(without_dropout());
  const std::vector<double> expected = losses_alone(*alone, 6, 12);
  const std::vector<float> weights = numbers_in(state_of(*alone), "model.fc2.weight");
  for (int64_t world = 1; world <= 4; ++world) {
    SCOPED_TRACE(world);
    make_learners(without_dropout(), world);
    expect_near(train(0, 6, 12), expected);
    EXPECT_THAT(states(), Each(states()[0]));
    const std::vector<float> here = numbers_in(states()[0], "model.fc2.weight");
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(here[i], weights[i], 1e-5);
  }
}

TEST_F(LearnerRanksTest, UnevenAndEmptySharesCountByTheirSamples) {
  for (const int64_t samples : {7, 2, 1}) {
    SCOPED_TRACE(samples);
    const auto alone = make(without_dropout());
    const std::vector<double> expected = losses_alone(*alone, 5, samples);
    make_learners(without_dropout(), 4);
    expect_near(train(0, 5, samples), expected);
    EXPECT_THAT(states(), Each(states()[0]));
  }
}

TEST_F(LearnerRanksTest, SmallBucketsAndPiecesOfABatchChangeNothing) {
  make_learners(without_dropout(), 2);
  const std::vector<double> losses = train(0, 5, 12);
  const Bytes whole = states()[0];
  make_learners(without_dropout(), 2);
  EXPECT_EQ(train(0, 5, 12, {.first = 64, .rest = 256}), losses);
  EXPECT_THAT(states(), Each(whole));

  Learner::Setup setup = without_dropout();
  setup.accumulate = 3;
  make_learners(setup, 2);
  expect_near(train(0, 5, 12), losses);
  EXPECT_THAT(states(), Each(states()[0]));
}

TEST_F(LearnerRanksTest, BatchNormsStatisticsAreTheMeanOfAllRanks) {
  make_learners(resnet_setup(), 3);
  train(0, 2, 7);
  EXPECT_THAT(states(), Each(states()[0]));
  // After one step from equal statistics each is the mean of the ranks' own, by their samples.
  make_learners(resnet_setup(), 2);
  train(0, 1, 9);
  std::vector<std::vector<float>> own;
  for (const Share share : {share_of(9, 0, 2), share_of(9, 1, 2)}) {
    const auto learner = make(resnet_setup());
    ASSERT_TRUE(train_on(*learner, part_of(batch_of(0, 9), share.begin, share.end), 0, kRate));
    own.push_back(numbers_in(state_of(*learner), "model.bn1.running_mean"));
  }
  const std::vector<float> mean = numbers_in(states()[0], "model.bn1.running_mean");
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(mean[i], (4 * own[0][i] + 5 * own[1][i]) / 9, 1e-5);
  }
}

TEST_F(LearnerRanksTest, MixedPrecisionSkipsAnOverflowOnAllRanks) {
  Learner::Setup setup = without_dropout();
  setup.precision = Precision::fp16;
  setup.ema = 0.9;
  make_learners(setup, 3);
  train(0, 4, 10);
  EXPECT_THAT(states(), Each(states()[0]));
}

// A rank that dies in a step: the others give it up with nothing changed, and take it again.
TEST_F(LearnerRanksTest, AStepThatLosesARankIsTakenAgainByTheOthers) {
  make_learners(resnet_setup(), 3);
  train(0, 1, 12);
  const Bytes before = states()[0];
  ranks_.run(3, [&](int64_t rank, Collectives& group) {
    if (rank == 1) return;  // its connections are closed
    Learner& learner = *learners_[static_cast<size_t>(rank)];
    ASSERT_TRUE(learner.join(&group));
    RankStep exchange;
    const auto results = step_of(learner, batch_of(1, 12), share_of(12, rank, 3), 1, exchange);
    ASSERT_FALSE(results.has_value());
    EXPECT_EQ(results.error().code, Code::unavailable);
    EXPECT_THAT(results.error().message, HasSubstr("step 2: a rank was lost"));
    EXPECT_TRUE(group.is_broken());
    ASSERT_TRUE(learner.join(nullptr));
    EXPECT_EQ(state_of(learner), before);
  });
  learners_.erase(learners_.begin() + 1);
  train(1, 3, 12);
  EXPECT_THAT(states(), Each(states()[0]));

  // As two that have never been three.
  std::vector<std::unique_ptr<Learner>> after = std::move(learners_);
  make_learners(resnet_setup(), 2);
  const auto parsed = parse_safetensors(before);
  ASSERT_TRUE(parsed.has_value());
  for (const auto& learner : learners_) ASSERT_TRUE(learner->load(*parsed));
  train(1, 3, 12);
  EXPECT_EQ(state_of(*after[0]), states()[0]);
}

// A rank that hangs closes nothing: only its supervisor can tell.
TEST_F(LearnerRanksTest, AHungRankIsNotWaitedForOnceTheGenerationIsOver) {
  make_learners(without_dropout(), 3);
  const Bytes before = states()[0];
  std::latch others_are_through(3);
  std::latch all_wait(3);
  ranks_.run(3, [&](int64_t rank, Collectives& group) {
    if (rank == 2) {
      all_wait.arrive_and_wait();
      ranks_.end_generation();
      others_are_through.arrive_and_wait();
      return;
    }
    Learner& learner = *learners_[static_cast<size_t>(rank)];
    ASSERT_TRUE(learner.join(&group));
    all_wait.arrive_and_wait();
    RankStep exchange;
    const auto results = step_of(learner, batch_of(0, 12), share_of(12, rank, 3), 0, exchange);
    EXPECT_FALSE(results.has_value());
    EXPECT_TRUE(group.is_broken());
    EXPECT_EQ(state_of(learner), before);
    ASSERT_TRUE(learner.join(nullptr));
    others_are_through.arrive_and_wait();
  });
}

TEST_F(LearnerRanksTest, AllHearEachRanksWordAndAStepThatOneGivesUpIsLeftUndone) {
  make_learners(without_dropout(), 3);
  const Bytes before = states()[0];
  ranks_.run(3, [&](int64_t rank, Collectives& group) {
    Learner& learner = *learners_[static_cast<size_t>(rank)];
    ASSERT_TRUE(learner.join(&group));
    RankStep exchange{.mine = {.leaves = rank == 1 ? 2.0 : 0,
                               .gives_up = rank == 1 ? 1.0 : 0,
                               .busy_seconds = 0.5 * static_cast<double>(rank)}};
    const Share share = rank == 1 ? Share{} : share_of(12, rank, 3);
    const auto results = step_of(learner, batch_of(0, 12), share, 0, exchange);
    ASSERT_TRUE(results.has_value());
    EXPECT_TRUE(results->empty());
    EXPECT_TRUE(exchange.is_given_up());
    ASSERT_EQ(exchange.all.size(), 3U);
    EXPECT_EQ(exchange.all[1].leaves, 2);
    EXPECT_EQ(exchange.all[2].leaves, 0);
    EXPECT_EQ(exchange.all[2].busy_seconds, 1);
    EXPECT_EQ(state_of(learner), before);
    ASSERT_TRUE(learner.join(nullptr));
  });
}

TEST_F(LearnerRanksTest, ABatchWithBadSamplesIsTheMeanOfThoseThatCouldBeRead) {
  // Of 12 samples the last four, all of them rank 1's, cannot be read.
  const auto alone = make(without_dropout());
  const auto expected = train_on(*alone, part_of(batch_of(0, 12), 0, 8), 0, kRate);
  ASSERT_TRUE(expected.has_value());
  make_learners(without_dropout(), 2);
  ranks_.run(2, [&](int64_t rank, Collectives& group) {
    Learner& learner = *learners_[static_cast<size_t>(rank)];
    ASSERT_TRUE(learner.join(&group));
    RankStep exchange;
    const Share share = rank == 0 ? Share{0, 6} : Share{6, 8};
    const auto results = step_of(learner, batch_of(0, 12), share, 0, exchange);
    ASSERT_TRUE(results.has_value());
    EXPECT_EQ(exchange.samples, 8);
    EXPECT_NEAR(results->at(0).loss, expected->loss, 1e-5);
    ASSERT_TRUE(learner.join(nullptr));
  });
  const std::vector<float> weights = numbers_in(state_of(*alone), "model.fc2.weight");
  const std::vector<float> here = numbers_in(states()[0], "model.fc2.weight");
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(here[i], weights[i], 1e-5);
}

TEST_F(LearnerRanksTest, SumsAndBroadcastsReachEveryRank) {
  ranks_.run(3, [&](int64_t rank, Collectives& group) {
    const auto sums = group.sum({1, static_cast<double>(rank)});
    ASSERT_TRUE(sums.has_value());
    EXPECT_EQ(*sums, (std::vector<double>{3, 3}));
    for (const Bytes& said : {Bytes("the state"), Bytes()}) {
      const auto heard = group.broadcast(rank == 2 ? said : "mine", 2);
      ASSERT_TRUE(heard.has_value());
      EXPECT_EQ(*heard, said);
    }
    EXPECT_EQ(group.use().bytes, ring_bytes(16, 8, 3, rank) + (rank == 2 ? 8 + 9 + 8 : 0));
  });
}

TEST_F(LearnerRanksTest, AShareThatIsTooSmallForBatchNormIsSaidSo) {
  Learner::Setup setup = resnet_setup();
  setup.shape = {1, 8, 8};  // 1 x 1 in the last layers
  make_learners(setup, 2);
  ranks_.run(2, [&](int64_t rank, Collectives& group) {
    Learner& learner = *learners_[static_cast<size_t>(rank)];
    ASSERT_TRUE(learner.join(&group));
    RankStep exchange;
    const auto results = step_of(learner, batch_of(0, 2), share_of(2, rank, 2), 0, exchange);
    ASSERT_FALSE(results.has_value());
    EXPECT_EQ(results.error().code, Code::invalid);
    EXPECT_THAT(results.error().message, HasSubstr("share of 1 of a batch of 2"));
    EXPECT_THAT(results.error().message, HasSubstr("fewer than 2 ranks"));
  });
}

}  // namespace
}  // namespace tern
