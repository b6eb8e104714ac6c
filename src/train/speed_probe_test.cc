#include "train/speed_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tern {
namespace {

TEST(SpeedProbe, TheCpuIsMeasuredAndSaidInOneLine) {
  SystemClock clock;
  const auto line = probe_speed(
      {.clock = &clock, .threads = 1, .device = "cpu", .limit = std::chrono::milliseconds(50)});
  ASSERT_TRUE(line.has_value()) << line.error().message;
  EXPECT_EQ(line->find('\n'), std::string::npos);
  const nlohmann::json answer = nlohmann::json::parse(*line);
  EXPECT_EQ(answer.at("device"), "cpu");
  EXPECT_EQ(answer.at("libtorch"), "2.11.0");
  EXPECT_EQ(answer.at("threads"), 1);
  EXPECT_GT(answer.at("float32_gflops").get<double>(), 0.1);
  EXPECT_LT(answer.at("float32_gflops").get<double>(), 1e5);
}

TEST(SpeedProbe, AClockThatStandsStillEndsItAllTheSame) {
  SimClock clock;
  const auto line = probe_speed({.clock = &clock, .limit = std::chrono::milliseconds(50)});
  ASSERT_TRUE(line.has_value()) << line.error().message;
  EXPECT_EQ(nlohmann::json::parse(*line).at("float32_gflops"), 0.0);
}

TEST(SpeedProbe, ADeviceThatDoesNotExistIsRefused) {
  SystemClock clock;
  const auto line = probe_speed({.clock = &clock, .device = "tpu"});
  ASSERT_FALSE(line.has_value());
  EXPECT_EQ(line.error().code, Code::invalid);
  EXPECT_THAT(line.error().message, testing::HasSubstr("cuda:0"));
}

}  // namespace
}  // namespace tern
