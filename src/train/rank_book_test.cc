#include "train/rank_book.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tern {
namespace {

const std::vector<std::string> kMembers = {"machine 0, rank 0 (pid 5)",
                                           "machine 1, rank 1 (pid 6)"};

RankWord word(double busy, double step) {
  return {.busy_seconds = busy,
          .step_seconds = step,
          .data_seconds = 0.01,
          .predicted_bytes = 1000,
          .sent_bytes = 1010,
          .received_bytes = 990};
}

TEST(RankBook, WhatTheLastOneWaitsIsTheNetworksPart) {
  RankBook book;
  for (int i = 0; i < 10; ++i) book.note({word(0.1, 0.5), word(0.4, 0.5)}, kMembers, 64);
  const nlohmann::json fields = book.fields();
  const nlohmann::json& group = fields["group"];
  EXPECT_EQ(group["steps"], 10);
  EXPECT_NEAR(group["step_seconds"].get<double>(), 5, 1e-9);
  EXPECT_NEAR(group["communication_seconds"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(group["wait_seconds"].get<double>(), 2.5, 1e-9);
  EXPECT_NEAR(group["leader_wait_seconds"].get<double>(), 4, 1e-9);
  EXPECT_NEAR(group["samples_each"].get<double>(), 320, 1e-9);
  EXPECT_EQ(fields["bytes_per_step"], 1000);
  ASSERT_EQ(fields["members"].size(), 2U);
  EXPECT_EQ(fields["members"][1]["name"], kMembers[1]);
  EXPECT_NEAR(fields["members"][1]["wait_seconds"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(fields["members"][1]["sent_bytes"].get<double>(), 10'100, 1e-9);
  EXPECT_EQ(fields["members"][1]["measured_steps"], 10);
}

TEST(RankBook, AStragglerIsTakenOnceAndAnotherAgain) {
  RankBook book;
  const auto steps = [&](double first, double second, int count) {
    for (int i = 0; i < count; ++i) book.note({word(first, 0.5), word(second, 0.5)}, kMembers, 64);
  };
  steps(0.2, 0.4, 9);
  EXPECT_FALSE(book.take_straggler().has_value()) << "not yet long enough";
  steps(0.2, 0.4, 2);
  const auto found = book.take_straggler();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->name, kMembers[1]);
  EXPECT_NEAR(found->ratio, 2, 1e-9);
  steps(0.2, 0.4, 20);
  EXPECT_FALSE(book.take_straggler().has_value()) << "it is known";
  steps(0.4, 0.38, 20);
  EXPECT_FALSE(book.take_straggler().has_value()) << "that is not worth a word";
  steps(0.4, 0.2, 20);
  EXPECT_EQ(book.take_straggler().value_or(SlowestRank{}).name, kMembers[0]);
}

TEST(RankBook, StepsOfOneRankAreTheMeasureForThoseOfMany) {
  RankBook book;
  book.note({word(0, 0), word(0.4, 0.5)}, kMembers, 64);  // a first step
  EXPECT_EQ(book.fields()["group"]["steps"], 0);
  EXPECT_FALSE(book.fields().contains("bytes_per_step"));
  book.note({word(0.31, 0.31)}, kMembers, 64);
  EXPECT_NEAR(book.fields()["group"]["alone_seconds"].get<double>(), 0.3, 1e-9);
  EXPECT_NEAR(book.fields()["group"]["alone_samples"].get<double>(), 64, 1e-9);
  EXPECT_TRUE(book.fields()["members"].empty());
}

TEST(RankBook, ALineOfTheMetricsHasBytesAndWaits) {
  EXPECT_EQ(communication_json(word(0.1, 0.5), {word(0.1, 0.5), word(0.4, 0.5)}),
            R"({"predicted":1000,"sent":1010,"received":990,"busy_us":[100000,400000],)"
            R"("wait_us":[400000,100000]})");
  EXPECT_EQ(communication_json({.predicted_bytes = 7}, {}),
            R"({"predicted":7,"busy_us":[],"wait_us":[]})");
}

TEST(RankBook, AProcessIsAMemberWithoutItsPlace) {
  EXPECT_EQ(process_of("machine 0, rank 1 (pid 123)"), "machine 0 (pid 123)");
  EXPECT_EQ(process_of("rank 1"), "rank 1");
}

}  // namespace
}  // namespace tern
