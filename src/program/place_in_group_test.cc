#include "program/place_in_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::ElementsAre;

TEST(PlaceInGroup, CountsByMachine) {
  // Ranks of two machines, whose numbers have a gap.
  PlaceInGroup place{.attempt = 3, .rank = 2, .machines = {4, 1, 4, 1, 4}};
  EXPECT_EQ(place.local_rank(), 1);
  EXPECT_EQ(place.local_world(), 3);
  EXPECT_EQ(place.group_rank(), 1);
  EXPECT_EQ(place.group_world(), 2);
  place.rank = 3;
  EXPECT_EQ(place.local_rank(), 1);
  EXPECT_EQ(place.local_world(), 2);
  EXPECT_EQ(place.group_rank(), 0);
}

TEST(ProgramVariables, AreThoseOfTorchrun) {
  const PlaceInGroup place{.attempt = 2,
                           .rank = 1,
                           .machines = {0, 0},
                           .master_address = "127.0.0.1",
                           .master_port = 4711,
                           .has_store = true};
  VariableChanges changes =
      program_variables(place, {.checkpoints = "/w/c", .notice_file = "/w/n", .run_id = "r7"}, {});
  EXPECT_EQ(changes["RANK"], "1");
  EXPECT_EQ(changes["WORLD_SIZE"], "2");
  EXPECT_EQ(changes["LOCAL_RANK"], "1");
  EXPECT_EQ(changes["MASTER_ADDR"], "127.0.0.1");
  EXPECT_EQ(changes["MASTER_PORT"], "4711");
  EXPECT_EQ(changes["TORCHELASTIC_RESTART_COUNT"], "1");
  EXPECT_EQ(changes["TORCHELASTIC_USE_AGENT_STORE"], "True");
  EXPECT_EQ(changes["TERN_CHECKPOINT_DIR"], "/w/c");
  EXPECT_EQ(changes["OMP_NUM_THREADS"], "1");
  EXPECT_EQ(changes["TERN_RUN"], std::nullopt);
  changes = program_variables(place, {}, {"OMP_NUM_THREADS=3"});
  EXPECT_FALSE(changes.contains("OMP_NUM_THREADS"));
}

TEST(ProgramVariables, KeepDataPortsOnTheRunsInterface) {
  PlaceInGroup place{.machines = {0, 1}, .interface = "eth1"};
  VariableChanges changes = program_variables(place, {}, {"NCCL_SOCKET_IFNAME=ib0"});
  EXPECT_EQ(changes["GLOO_SOCKET_IFNAME"], "eth1");
  EXPECT_FALSE(changes.contains("NCCL_SOCKET_IFNAME")) << "it was set, and stays";
  place.machines = {0, 0};
  EXPECT_FALSE(program_variables(place, {}, {}).contains("GLOO_SOCKET_IFNAME"));
}

// PyTorch's rank 0 would connect to a store that nobody keeps.
TEST(ProgramVariables, HaveNoStoreWhereTheProgramListens) {
  VariableChanges changes = program_variables({.machines = {0}}, {}, {});
  ASSERT_TRUE(changes.contains("TORCHELASTIC_USE_AGENT_STORE"));
  EXPECT_EQ(changes["TORCHELASTIC_USE_AGENT_STORE"], std::nullopt);
}

TEST(ProgramVariables, ReplaceWhatWasThereAndLoseTheSupervisors) {
  EXPECT_THAT(changed({"RANK=9", "HOME=/h", "TERN_RANK_ID=1", "GONE=1"},
                      {{"RANK", "0"}, {"GONE", std::nullopt}}),
              ElementsAre("HOME=/h", "RANK=0"));
}

}  // namespace
}  // namespace tern
