#include "train/resume.h"

#include <gtest/gtest.h>

#include "storage/memory_store.h"

namespace tern {
namespace {

std::string toml_of(RunConfig config) {
  return describe_run(config).to_toml(OptionSet::Comments::no);
}

RunConfig some_run() {
  RunConfig config;
  config.recipe = "tiny";
  config.train.threads = 3;
  return config;
}

TEST(Resume, TheSameOptionsAgree) {
  RunConfig config = some_run();
  const auto changes = agree_with_recorded(config, toml_of(some_run()));
  ASSERT_TRUE(changes.has_value()) << changes.error().to_string();
  EXPECT_TRUE(changes->empty());
}

TEST(Resume, AThreadCountLeftOpenBecomesTheRunsOwn) {
  RunConfig config = some_run();
  config.train.threads = 0;
  ASSERT_TRUE(agree_with_recorded(config, toml_of(some_run())).has_value());
  EXPECT_EQ(config.train.threads, 3);
}

TEST(Resume, WhatMayChangeIsListedAndWhatMayNotIsRefusedWithBothValues) {
  RunConfig config = some_run();
  config.train.epochs = 9;
  config.loader.threads = 7;
  config.checkpoint.every = Milliseconds(1);
  const auto changes = agree_with_recorded(config, toml_of(some_run()));
  ASSERT_TRUE(changes.has_value()) << changes.error().to_string();
  EXPECT_EQ(changes->size(), 3u);

  config.train.seed = 99;
  config.model.width = 16;
  const auto refused = agree_with_recorded(config, toml_of(some_run()));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  EXPECT_NE(refused.error().message.find("train.seed: the run has 1, you ask for 99"),
            std::string::npos);
  EXPECT_NE(refused.error().message.find("model.width: the run has 32, you ask for 16"),
            std::string::npos);
}

TEST(Resume, ADamagedRunFileDecidesNothingButAnotherRunsDoes) {
  MemoryStore run;
  RunConfig config = some_run();
  EXPECT_TRUE(agree_with_run_folder(config, run).has_value());
  ASSERT_TRUE(run.put(kRunFileObject, "seed = [").has_value());
  EXPECT_TRUE(agree_with_run_folder(config, run).has_value());
  RunConfig other = some_run();
  other.recipe = "other";
  ASSERT_TRUE(run.put(kRunFileObject, toml_of(other)).has_value());
  EXPECT_FALSE(agree_with_run_folder(config, run).has_value());
}

TEST(Resume, ARunFileCutAnywhereDecidesNothing) {
  MemoryStore run;
  RunConfig other = some_run();
  other.train.seed = 5;
  const std::string whole = toml_of(other);
  for (size_t kept = 0; kept < whole.size(); ++kept) {
    ASSERT_TRUE(run.put(kRunFileObject, whole.substr(0, kept)).has_value());
    RunConfig config = some_run();
    ASSERT_TRUE(agree_with_run_folder(config, run).has_value()) << "cut after " << kept;
  }
}

TEST(Resume, AnEmptyRunHasNoPointToResumeFrom) {
  MemoryStore checkpoints;
  std::vector<std::string> warnings;
  const auto point = find_resume_point(checkpoints, warnings);
  ASSERT_TRUE(point.has_value());
  EXPECT_FALSE(point->has_value());
  EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace tern
