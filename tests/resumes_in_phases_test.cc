// Bit-exact resume where a run has more to remember than weights and momentum: phases with other
// images, batches and rates, a moving average of the weights, gradients in pieces, mixed precision.
// Runs are interrupted step after step, by a notice and by SIGKILL in turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "forked_run.h"
#include "tiny_data.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

struct Feature {
  std::string name;
  std::function<void(RunConfig&)> ask;
};

// Images of 16, 24 and 32 pixels, batches of 45 and 30, the last phase evaluated at its own ratio.
void ask_for_phases(RunConfig& config) {
  config.model = {.name = "resnet18", .stem = "small", .zero_init = true};
  config.train.epochs = 4;
  config.image.size = 16;
  config.schedule = {.shape = "pieces", .reference_batch = 20};
  config.data_phase = {{.epochs = {0, 2}, .batch = 45},
                       {.epochs = {2, 3}, .image_size = 24, .batch = 30, .min_scale = 0.5},
                       {.epochs = {3, 4}, .image_size = 32, .batch = 30, .rectangular = "yes"}};
  config.lr_phase = {{.epochs = {0, 1.5}, .rate = {0.2, 1}},
                     {.epochs = {1.5, 4}, .rate = {1, 0}, .by = "epoch"}};
}

std::vector<Feature> features() {
  const auto shorten = [](RunConfig& config) { config.train.epochs = 2; };
  return {{"phases", ask_for_phases},
          {"short epochs",
           [](RunConfig& config) {
             config.train.epochs = 4;
             config.train.epoch_steps = 2;
           }},
          {"moving average, pieces, clipping",
           [=](RunConfig& config) {
             shorten(config);
             config.train.ema = 0.9;
             config.train.accumulate = 3;
             config.optimizer.clip_norm = 0.5;
             config.optimizer.weight_decay_on = "weights";
           }},
          {"bf16",
           [=](RunConfig& config) {
             shorten(config);
             config.train.precision = "bf16";
             config.train.ema = 0.5;
           }},
          {"fp64", [=](RunConfig& config) {
             shorten(config);
             config.train.precision = "fp64";
           }}};
}

class ResumesInPhases : public testing::TestWithParam<size_t> {};

TEST_P(ResumesInPhases, ToTheBit) {
  const Feature feature = features()[GetParam()];
  SCOPED_TRACE(feature.name);
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  RunConfig config = tiny_config(scratch / "data");
  config.train.evaluate_batch = 10;
  feature.ask(config);
  ASSERT_EQ(run_process(scratch / "whole", config), kExitDone)
      << read_text((scratch / "whole").string() + ".log");
  const Remains expected = read_remains(scratch / "whole");
  const auto steps = static_cast<int64_t>(expected.losses.size());
  ASSERT_GE(steps, 8);
  const auto run = scratch / "run";
  // A resnet is slow: every third step is enough to be in each phase, and at its border.
  const int64_t apart = config.data_phase.empty() ? 1 : 3;
  for (int64_t at = 1; at < steps; at += apart * interrupt_every()) {
    SCOPED_TRACE(at);
    std::filesystem::remove_all(run);
    const bool is_kill = at % 2 == 0;
    const auto arrange = [at, is_kill](ForkedWorld& world) {
      world.on_step = [at, is_kill, &world](const StepEvent& event) {
        if (event.step != at) return;
        if (is_kill) raise(SIGKILL);
        world.board.post({.source = "the test"});
      };
    };
    ASSERT_EQ(run_process(run, config, {.arrange = arrange}), is_kill ? -SIGKILL : kExitPreempted);
    ASSERT_EQ(run_process(run, config), kExitDone) << read_text(run.string() + ".log");
    const Remains remains = read_remains(run);
    ASSERT_EQ(remains.complaint, "");
    ASSERT_EQ(remains.losses, expected.losses);
    ASSERT_EQ(remains.epochs, expected.epochs);
    ASSERT_EQ(remains.blobs, expected.blobs);
    ASSERT_TRUE(remains.weights == expected.weights);
  }
}

INSTANTIATE_TEST_SUITE_P(Feature, ResumesInPhases, testing::Range(size_t{0}, features().size()));

// The rate is far too large: the loss becomes no number within a few steps.
RunConfig diverging(const std::filesystem::path& data) {
  RunConfig config = tiny_config(data);
  config.optimizer = {.learning_rate = 3e4};
  config.schedule = {.shape = "constant"};
  config.train.epochs = 2;
  return config;
}

TEST(Divergence, EndsTheRunWithItsCauseInTheLedger) {
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  EXPECT_NE(run_process(scratch / "run", diverging(scratch / "data")), kExitDone);
  const std::string ledger = read_text(scratch / "run" / "ledger.jsonl");
  EXPECT_THAT(ledger, testing::HasSubstr("\"kind\":\"diverged\""));
  EXPECT_THAT(ledger, testing::HasSubstr("\"done\":\"stopped\""));
}

TEST(Divergence, RollsBackWithHalfTheRateAndGivesUpAfterThree) {
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  RunConfig config = diverging(scratch / "data");
  config.train.on_divergence = "roll_back";
  EXPECT_NE(run_process(scratch / "run", config), kExitDone);
  const std::string ledger = read_text(scratch / "run" / "ledger.jsonl");
  size_t roll_backs = 0;
  for (size_t at = 0; (at = ledger.find("\"done\":\"rolled_back\"", at)) != std::string::npos;
       ++at) {
    ++roll_backs;
  }
  EXPECT_EQ(roll_backs, 3u);
  EXPECT_THAT(ledger, testing::HasSubstr("\"done\":\"stopped\""));
}

TEST(Divergence, ARateThatHalvingMendsTrainsToTheEnd) {
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  RunConfig config = diverging(scratch / "data");
  config.optimizer = {.learning_rate = 0.05, .momentum = 0.9};
  config.train.on_divergence = "roll_back";
  config.train.explosion = 1.0;  // any rise of the loss counts, after 20 steps
  config.train.epochs = 5;
  run_process(scratch / "run", config);
  const std::string ledger = read_text(scratch / "run" / "ledger.jsonl");
  EXPECT_THAT(ledger, testing::HasSubstr("\"done\":\"rolled_back\""));
  EXPECT_THAT(ledger, testing::HasSubstr("\"rate_factor\""));
}

TEST(EarlyStop, EndsARunThatGetsNoBetter) {
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  RunConfig config = tiny_config(scratch / "data");
  config.optimizer = {.learning_rate = 1e-12, .momentum = 0};  // it learns nothing
  config.train.epochs = 50;
  config.train.early_stop = 2;
  ASSERT_EQ(run_process(scratch / "run", config), kExitDone);
  const std::string ledger = read_text(scratch / "run" / "ledger.jsonl");
  EXPECT_THAT(ledger, testing::HasSubstr("for 2 epochs"));
  EXPECT_EQ(read_remains(scratch / "run").losses.size(), 3u * 6u);
}

TEST(Target, IsRecordedOnceAndMayEndTheRun) {
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  RunConfig config = tiny_config(scratch / "data");
  config.train.target_top1 = 0.3;
  config.train.stop_at_target = true;
  config.train.epochs = 50;
  ASSERT_EQ(run_process(scratch / "run", config), kExitDone);
  const std::string ledger = read_text(scratch / "run" / "ledger.jsonl");
  EXPECT_THAT(ledger, testing::HasSubstr("\"kind\":\"target\""));
  EXPECT_THAT(ledger, testing::HasSubstr("the target is reached"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "run" / "best.safetensors"));
}

}  // namespace
}  // namespace tern
