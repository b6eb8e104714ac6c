#include "cli/status_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/fleet_door.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using Json = nlohmann::json;
using testing::ContainsRegex;
using testing::SizeIs;

const Json kHub = Json::parse(R"({"machine":0,"name":"a","state":"running","role":"hub","pid":9,
  "step":118,"ranks":[
    {"id":0,"pid":11,"rank":0,"role":"leader","step":118,"rate":512.4,"waits_for":""},
    {"id":1,"pid":12,"rank":1,"role":"follower","step":117,"rate":0.0,"waits_for":"the store"},
    {"id":2,"pid":13,"rank":-1,"role":"starting","step":-1,"rate":0.0,"waits_for":""}]})");
const Json kSpare = Json::parse(
    R"({"machine":1,"name":"spare-1","state":"running","role":"resting","pid":21,"ranks":[]})");
const Json kGone =
    Json::parse(R"({"machine":2,"name":"c","state":"unreachable","reason":"no route"})");

TEST(StatusTable, HasALineForEachRankAndForEachMachineWithout) {
  const auto lines = status_lines({kHub, kSpare, kGone});
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_THAT(lines[0],
              ContainsRegex("machine +state +role +rank +process +step +rate +waits for"));
  EXPECT_THAT(lines[1], ContainsRegex("^  0  a +running +hub +0 +11 +118 +512/s$"));
  EXPECT_THAT(lines[2], ContainsRegex("hub +1 +12 +117 +the store$"));
  EXPECT_THAT(lines[3], ContainsRegex("hub +13 +starting$"));
  EXPECT_THAT(lines[4], ContainsRegex("^  1  spare-1 +running +resting +21$"));
  EXPECT_THAT(lines[5], ContainsRegex("^  2  c +unreachable +no route$"));
}

Json ended(int code, const char* role = "working") {
  return {{"state", "ended"}, {"exit_code", code}, {"role", role}};
}

TEST(Outcome, IsGoodIfTheRunEndedWellOnAnyMachine) {
  EXPECT_EQ(outcome_of({ended(kExitPreempted), ended(kExitDone)}), kExitDone);
  EXPECT_EQ(outcome_of({ended(-9), ended(kExitDone), kGone}), kExitDone);
  EXPECT_EQ(outcome_of({ended(kExitPreempted), ended(kExitStopped)}), kExitStopped);
  EXPECT_EQ(outcome_of({ended(kExitUsage), ended(kExitPreempted)}), kExitPreempted);
  EXPECT_EQ(outcome_of({ended(-9), ended(kExitUsage)}), 137);
  EXPECT_EQ(outcome_of({kGone}), kExitUnavailable);
  // That a spare was not needed says nothing of the run.
  EXPECT_EQ(outcome_of({ended(kExitPreempted), ended(kExitDone, "resting")}), kExitPreempted);
}

}  // namespace
}  // namespace tern
