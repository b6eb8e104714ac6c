#include "cli/trainer_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "cli/become_trainer.h"
#include "storage/disk_store.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "train/run_config.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> value(const std::vector<EnvironmentChange>& changes,
                                 std::string_view name) {
  for (const EnvironmentChange& change : changes) {
    if (change.name == name) return change.value;
  }
  ADD_FAILURE() << name << " is left as it was";
  return std::nullopt;
}

TEST(TrainerEnvironment, ARunKeepsItsThreadsAndANewOneTakesTheMachines) {
  EXPECT_EQ(decide_threads(0, 0, 2), 2);
  EXPECT_EQ(decide_threads(0, 3, 2), 3);
  EXPECT_EQ(decide_threads(8, 3, 2), 8);
  EXPECT_GE(usable_cores(), 1);
}

TEST(TrainerEnvironment, TheLibrariesLearnTheirThreadsAndFolder) {
  const auto changes = trainer_environment("/opt/libtorch", "", 2, 2);
  EXPECT_EQ(value(changes, "LD_LIBRARY_PATH"), "/opt/libtorch/lib");
  EXPECT_EQ(value(changes, "OMP_NUM_THREADS"), "2");
  EXPECT_EQ(value(changes, "MKL_NUM_THREADS"), "2");
  EXPECT_EQ(value(changes, "TERN_THREADS"), "2");
  EXPECT_EQ(value(changes, "OMP_WAIT_POLICY"), std::nullopt);
  EXPECT_EQ(value(changes, "KMP_BLOCKTIME"), std::nullopt);
  EXPECT_EQ(value(changes, "GOMP_SPINCOUNT"), std::nullopt);
  EXPECT_EQ(value(trainer_environment("/opt/libtorch", "/a", 2, 2, Arithmetic::native, "/own/lib"),
                  "LD_LIBRARY_PATH"),
            "/opt/libtorch/lib:/own/lib:/a");
  EXPECT_EQ(value(trainer_environment("/opt/libtorch", "/a:/b", 2, 2), "LD_LIBRARY_PATH"),
            "/opt/libtorch/lib:/a:/b");
}

TEST(TrainerEnvironment, APortableRunPinsEveryLibrary) {
  const auto changes = trainer_environment("/opt/libtorch", "", 2, 2, Arithmetic::portable);
  EXPECT_EQ(value(changes, "ATEN_CPU_CAPABILITY"), "avx2");
  EXPECT_EQ(value(changes, "ONEDNN_MAX_CPU_ISA"), "AVX2");
  EXPECT_EQ(value(changes, "MKL_CBWR"), "COMPATIBLE");
}

TEST(TrainerEnvironment, TheUsersLibraryPathIsKeptForTheCommandsOfOthers) {
  EXPECT_EQ(value(trainer_environment("/opt/libtorch", "/a:/b", 2, 2), kLibraryPathVariable),
            "/a:/b");
}

TEST(TrainerEnvironment, MoreThreadsThanCoresWaitPassively) {
  const auto changes = trainer_environment("/opt/libtorch", "", 3, 2);
  EXPECT_EQ(value(changes, "OMP_WAIT_POLICY"), "passive");
  EXPECT_EQ(value(changes, "KMP_BLOCKTIME"), "0");
  EXPECT_EQ(value(changes, "GOMP_SPINCOUNT"), "0");
}

TEST(TrainerEnvironment, LargePagesAreAskedForUnlessTheUserTunesTheAllocator) {
  Surroundings around;
  static constexpr char kTunables[] = "GLIBC_TUNABLES";
  EXPECT_EQ(value(trainer_changes(around, {}, {}), kTunables), "glibc.malloc.hugetlb=1");
  around.cloud.variable = [](const std::string& name) -> std::optional<std::string> {
    return name == kTunables ? std::optional<std::string>("glibc.malloc.check=3") : std::nullopt;
  };
  for (const EnvironmentChange& change : trainer_changes(around, {}, {})) {
    EXPECT_NE(change.name, kTunables);
  }
}

TEST(TrainerEnvironment, TheRecordedThreadsAreThoseOfTheRunFolder) {
  std::string folder = testing::TempDir() + "trainer_environment_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  RealFileDoor door;
  const auto run = DiskStore::open(folder, door).value();
  EXPECT_EQ(recorded_threads(*run).value(), 0);

  RunConfig config;
  config.train.threads = 6;
  std::ofstream(fs::path(folder) / kRunFileObject)
      << describe_run(config).to_toml(OptionSet::Comments::no);
  EXPECT_EQ(recorded_threads(*run).value(), 6);

  std::ofstream(fs::path(folder) / kRunFileObject) << "[train\nthreads = 6\n";
  EXPECT_EQ(recorded_threads(*run).value(), 0);
  fs::remove_all(folder);
}

TEST(TrainerEnvironment, ABucketThatDoesNotAnswerHasNotZeroThreads) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  EXPECT_EQ(recorded_threads(faulty).value(), 0) << "there is no run yet";
  faulty.inject(2, Fault::fail_before);
  EXPECT_EQ(recorded_threads(faulty).error().code, Code::unavailable);
}

}  // namespace
}  // namespace tern
