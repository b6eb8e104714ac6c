#include "train/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::SizeIs;

const Timeline kThree({{.epochs = 2, .steps_per_epoch = 5, .batch = 64},
                       {.epochs = 1, .steps_per_epoch = 8, .batch = 32},
                       {.epochs = 3, .steps_per_epoch = 2, .batch = 128}});

TEST(Timeline, AddsUpItsStretches) {
  EXPECT_EQ(kThree.epochs(), 6);
  EXPECT_EQ(kThree.steps(), 10 + 8 + 6);
}

TEST(Timeline, EveryStepHasOnePlaceAndTheyFollowEachOther) {
  Timeline::Place before = kThree.at(0);
  EXPECT_EQ(before, (Timeline::Place{0, 0, 0}));
  for (int64_t step = 1; step < kThree.steps(); ++step) {
    const Timeline::Place place = kThree.at(step);
    if (place.batch > 0) {
      EXPECT_EQ(place, (Timeline::Place{before.phase, before.epoch, before.batch + 1}));
    } else {
      EXPECT_EQ(place.epoch, before.epoch + 1);
      EXPECT_EQ(kThree.first_step_of(place.epoch), step);
    }
    before = place;
  }
  EXPECT_EQ(kThree.at(9), (Timeline::Place{0, 1, 4}));
  EXPECT_EQ(kThree.at(10), (Timeline::Place{1, 2, 0}));
  EXPECT_EQ(kThree.at(17), (Timeline::Place{1, 2, 7}));
  EXPECT_EQ(kThree.at(18), (Timeline::Place{2, 3, 0}));
}

TEST(Timeline, ThePlacePastTheEndIsTheEndOfTheLastPhase) {
  EXPECT_EQ(kThree.at(24), (Timeline::Place{2, 6, 0}));
  EXPECT_EQ(kThree.at(1000), (Timeline::Place{2, 6, 0}));
  EXPECT_EQ(kThree.epochs_after(24), 6);
  EXPECT_EQ(kThree.epochs_after(23), 5);
  EXPECT_EQ(kThree.first_step_of(6), 24);
  EXPECT_EQ(kThree.first_step_of(60), 24);
}

TEST(Timeline, KnowsTheBatchOfAStep) {
  EXPECT_EQ(kThree.batch_at(9), 64);
  EXPECT_EQ(kThree.batch_at(10), 32);
  EXPECT_EQ(kThree.batch_at(23), 128);
  EXPECT_EQ(kThree.steps_per_epoch_at(12), 8);
}

TEST(DataPhases, WithoutAnyTheRunIsOne) {
  RunConfig config;
  config.train.epochs = 5;
  config.train.batch = 7;
  config.image.size = 64;
  const auto phases = data_phases(config);
  ASSERT_THAT(phases, SizeIs(1));
  EXPECT_EQ(phases[0].epochs(), 5);
  EXPECT_EQ(phases[0].batch, 7);
  EXPECT_EQ(phases[0].image.size, 64);
}

TEST(DataPhases, WhatAPhaseLeavesOutIsAsTheRestSays) {
  RunConfig config;
  config.train.epochs = 5;
  config.train.batch = 7;
  config.data.path = "here";
  config.image.size = 64;
  config.image.rectangular = true;
  config.data_phase = {{.epochs = {0, 2}, .image_size = 32, .path = "there", .rectangular = "no"},
                       {.epochs = {2, 5}, .batch = 3, .min_scale = 0.5}};
  const auto phases = data_phases(config);
  ASSERT_THAT(phases, SizeIs(2));
  EXPECT_EQ(phases[0].path, "there");
  EXPECT_EQ(phases[0].batch, 7);
  EXPECT_EQ(phases[0].image.size, 32);
  EXPECT_FALSE(phases[0].image.rectangular);
  EXPECT_EQ(phases[1].path, "here");
  EXPECT_EQ(phases[1].image.size, 64);
  EXPECT_EQ(phases[1].image.min_scale, 0.5);
  EXPECT_TRUE(phases[1].image.rectangular);
  const RunConfig during = config_in(config, phases[1]);
  EXPECT_EQ(during.train.batch, 3);
  EXPECT_EQ(during.image.min_scale, 0.5);
}

}  // namespace
}  // namespace tern
