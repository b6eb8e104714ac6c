#include "train/train_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tern {
namespace {

CheckpointText sample_text() {
  return {.state = {.step = 17,
                    .epochs_closed = 2,
                    .samples = 1088,
                    .train_seconds = 12.5,
                    .epoch = {.loss = 0.1 + 0.2, .correct = 31, .samples = 64},
                    .best = {.top1 = 0.875, .step = 12}},
          .config_toml = "recipe = \"x\"\n",
          .version = "0.1.0",
          .dataset_id = "abc",
          .instruction_set = "AVX2",
          .fingerprint = "0123456789abcdef",
          .threads = 2,
          .steps_per_epoch = 6};
}

Bytes blob_of(const std::string& name, const std::string& data) {
  return write_safetensors(
      {.tensors = {{name, "U8", {static_cast<int64_t>(data.size())}, data}}, .metadata = {}});
}

TEST(TrainState, ComesBackToTheBit) {
  const CheckpointText text = sample_text();
  const auto json = format_state(text, {});
  ASSERT_TRUE(json.has_value());
  const auto back = parse_state(*json);
  ASSERT_TRUE(back.has_value()) << back.error().to_string();
  EXPECT_EQ(back->state.step, 17);
  EXPECT_EQ(back->state.epochs_closed, 2);
  EXPECT_EQ(back->state.samples, 1088);
  EXPECT_EQ(back->state.train_seconds, 12.5);
  EXPECT_EQ(back->state.epoch.loss, 0.1 + 0.2);
  EXPECT_EQ(back->state.epoch.correct, 31);
  EXPECT_EQ(back->state.epoch.samples, 64);
  EXPECT_EQ(back->state.best.top1, 0.875);
  EXPECT_EQ(back->state.best.step, 12);
  EXPECT_EQ(back->config_toml, text.config_toml);
  EXPECT_EQ(back->version, "0.1.0");
  EXPECT_EQ(back->dataset_id, "abc");
  EXPECT_EQ(back->instruction_set, "AVX2");
  EXPECT_EQ(back->fingerprint, "0123456789abcdef");
  EXPECT_EQ(back->threads, 2);
  EXPECT_EQ(back->steps_per_epoch, 6);
}

TEST(TrainState, EveryMissingOrMistypedFieldIsNamed) {
  const auto whole = nlohmann::json::parse(*format_state(sample_text(), {}));
  for (const auto& [name, value] : whole.items()) {
    if (name == "tensors" || name == "epoch" || name == "batch") continue;  // not read back here
    auto without = whole;
    without.erase(name);
    auto mistyped = whole;
    mistyped[name] = nlohmann::json::array();
    // Checkpoints of before there were fingerprints, or roll-backs, have none.
    if (name == "fingerprint" || name == "rate_factor") without = mistyped;
    for (const auto& damaged : {without, mistyped}) {
      const auto parsed = parse_state(damaged.dump());
      ASSERT_FALSE(parsed.has_value()) << name;
      EXPECT_EQ(parsed.error().code, Code::corrupt);
      EXPECT_NE(parsed.error().message.find("'" + name + "'"), std::string::npos);
    }
  }
  EXPECT_FALSE(parse_state("[]").has_value());
  EXPECT_FALSE(parse_state("{").has_value());
}

TEST(TrainState, GathersTensorsFromItsBlobs) {
  const std::vector<Bytes> blobs = {blob_of("a", "hello"), blob_of("b", "terns")};
  const auto json = format_state(sample_text(), blobs);
  std::vector<Bytes> joined;
  const auto tensors = gather_tensors(*json, blobs, joined);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().to_string();
  ASSERT_EQ(tensors->tensors.size(), 2u);
  EXPECT_EQ(tensors->tensors[0].data, "hello");
  EXPECT_EQ(tensors->tensors[1].data, "terns");
  EXPECT_TRUE(joined.empty());
}

TEST(TrainState, JoinsATensorThatLiesInSeveralBlobs) {
  const std::vector<Bytes> blobs = {blob_of("a", "hel"), blob_of("a", "lo")};
  auto json = nlohmann::json::parse(*format_state(sample_text(), {}));
  json["tensors"]["a"] = {
      {"dtype", "U8"},
      {"shape", {5}},
      {"pieces", {{{"blob", 0}, {"tensor", "a"}}, {{"blob", 1}, {"tensor", "a"}}}}};
  std::vector<Bytes> joined;
  const auto tensors = gather_tensors(json.dump(), blobs, joined);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().to_string();
  EXPECT_EQ(tensors->tensors[0].data, "hello");
}

TEST(TrainState, PiecesThatDoNotFitAreCorrupt) {
  const std::vector<Bytes> blobs = {blob_of("a", "hello")};
  const auto whole = nlohmann::json::parse(*format_state(sample_text(), blobs));
  std::vector<nlohmann::json> damaged(6, whole);
  damaged[0]["tensors"]["a"]["shape"] = {6};
  damaged[1]["tensors"]["a"]["pieces"][0]["blob"] = 1;
  damaged[2]["tensors"]["a"]["pieces"][0]["tensor"] = "b";
  damaged[3]["tensors"]["a"]["dtype"] = "X9";
  damaged[4]["tensors"]["a"]["pieces"] = nlohmann::json::array();
  damaged[5]["tensors"]["a"]["shape"] = {int64_t{1} << 62, 5};
  for (size_t i = 0; i < damaged.size(); ++i) {
    std::vector<Bytes> joined;
    const auto tensors = gather_tensors(damaged[i].dump(), blobs, joined);
    ASSERT_FALSE(tensors.has_value()) << i;
    EXPECT_EQ(tensors.error().code, Code::corrupt) << i;
  }
}

}  // namespace
}  // namespace tern
