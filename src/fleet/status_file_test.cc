#include "fleet/status_file.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr char kFile[] =
    R"({"machine":1,"hub":1,"term":3,"state":"working","generation":7,"step":118,"ranks":[
      {"id":0,"pid":11,"pid_start":22,"rank":2,"role":"follower","step":118,"rate":512.0,
       "waits_for":"rank 0"},
      {"id":1,"pid":12,"pid_start":23,"rank":-1,"role":"starting"}]})";

TEST(StatusFile, TellsOfTheMachineAndItsRanks) {
  const Json told = read_status_file(kFile);
  EXPECT_EQ(told["role"], "hub");
  EXPECT_EQ(told["term"], 3);
  EXPECT_EQ(told["generation"], 7);
  EXPECT_EQ(told["step"], 118);
  ASSERT_EQ(told["ranks"].size(), 2U);
  EXPECT_EQ(told["ranks"][0]["rate"], 512.0);
  EXPECT_EQ(told["ranks"][0]["waits_for"], "rank 0");
  EXPECT_EQ(told["ranks"][1]["step"], -1);
  EXPECT_EQ(read_status_file(R"({"machine":1,"hub":0,"state":"working"})")["role"], "working");
  EXPECT_EQ(read_status_file(R"({"machine":1,"hub":1,"state":"resting"})")["role"], "resting");
}

TEST(StatusFile, NamesProcessesThatAreRanks) {
  Json processes = Json::array({{{"pid", 11}, {"pid_start", 22}, {"role", "part"}},
                                {{"pid", 12}, {"pid_start", 99}, {"role", "part"}}});
  name_ranks(processes, read_status_file(kFile));
  EXPECT_EQ(processes[0]["role"], "follower");
  EXPECT_EQ(processes[0]["rank"], 2);
  EXPECT_EQ(processes[0]["step"], 118);
  EXPECT_EQ(processes[1]["role"], "part") << "another process of that number";
}

TEST(StatusFile, ThatIsDamagedTellsNothing) {
  for (const char* text : {"", "{", "[]", "7", "{}", R"({"state":7})"}) {
    EXPECT_TRUE(read_status_file(text).is_null()) << text;
  }
  // Members of other kinds count as not said.
  const Json odd = read_status_file(
      R"({"state":"working","hub":"x","step":1.5,
        "ranks":[7,{"rank":"a","rate":"b","role":"a\nb"}]})");
  EXPECT_EQ(odd["role"], "working");
  EXPECT_EQ(odd["step"], -1);
  EXPECT_EQ(odd["ranks"][0]["rank"], -1);
  EXPECT_EQ(odd["ranks"][1]["rate"], 0.0);
  EXPECT_EQ(read_status_file(R"({"state":"working","ranks":{"a":1}})")["ranks"].size(), 0U);
}

}  // namespace
}  // namespace tern
