#include "cuda/gpu.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace tern {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

const std::string kFake = TERN_FAKE_NVML;

// Keeps the fake driver loaded, so that what a test has asked it for outlives GpuDriver::open.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    handle_ = dlopen(kFake.c_str(), RTLD_NOW);
    ASSERT_NE(handle_, nullptr) << dlerror();
    set(0, 0, 1);
  }
  void TearDown() override {
    EXPECT_EQ(reinterpret_cast<int (*)()>(dlsym(handle_, "fake_nvml_initialised"))(), 0);
    dlclose(handle_);
  }
  // What the driver's start and every question about a GPU answer, and how many processes there
  // are.
  void set(int init, int device, unsigned processes) {
    reinterpret_cast<void (*)(int, int, unsigned)>(dlsym(handle_, "fake_nvml_set"))(init, device,
                                                                                    processes);
  }

  void* handle_ = nullptr;
};

TEST(Gpu, AMachineWithoutADriverIsNotFound) {
  const auto driver = GpuDriver::open("libno-such-driver.so.1");
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, Code::not_found);
}

TEST(Gpu, ThisMachinesDriverAnswersOrIsNotThere) {
  const auto driver = GpuDriver::open();
  if (!driver.has_value()) {
    EXPECT_EQ(driver.error().code, Code::not_found) << driver.error().message;
    return;
  }
  const auto gpus = (*driver)->gpus();
  ASSERT_TRUE(gpus.has_value()) << gpus.error().message;
  for (const Gpu& gpu : *gpus) {
    EXPECT_NE(gpu.name, "");
    EXPECT_GT(gpu.memory_bytes, 0);
  }
}

TEST(Gpu, ALibraryThatIsNoDriverIsUnavailable) {
  const auto driver = GpuDriver::open("libc.so.6");
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, Code::unavailable);
  EXPECT_THAT(driver.error().message, HasSubstr("580"));
}

TEST_F(GpuTest, WhatTheDriverSaysIsRead) {
  const auto driver = GpuDriver::open(kFake);
  ASSERT_TRUE(driver.has_value()) << driver.error().message;
  EXPECT_EQ((*driver)->driver_version(), "580.159.04");
  EXPECT_EQ((*driver)->cuda_version(), "13.2");
  const auto gpus = (*driver)->gpus();
  ASSERT_TRUE(gpus.has_value());
  ASSERT_THAT(*gpus, SizeIs(2));
  const Gpu& gpu = gpus->front();
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.uuid, "GPU-0");
  EXPECT_EQ(gpu.capability_major, 9);
  EXPECT_EQ(gpu.capability_minor, 0);
  EXPECT_EQ(gpu.memory_bytes, int64_t{150} << 30);
  EXPECT_EQ(gpu.memory_used_bytes, int64_t{1} << 30);
  EXPECT_DOUBLE_EQ(gpu.power_limit_watts, 699.5);
  EXPECT_DOUBLE_EQ(gpu.temperature_c, 41);
  ASSERT_THAT(gpu.processes, SizeIs(1));
  EXPECT_EQ(gpu.processes[0].pid, 100);
  EXPECT_EQ(gpu.processes[0].memory_bytes, 5 << 20);
  EXPECT_EQ(gpus->back().index, 1);
  EXPECT_EQ(gpus->back().name, std::string(96, 'n'));
}

TEST_F(GpuTest, MoreProcessesThanExpectedAreAllListed) {
  set(0, 0, 40);
  const auto driver = GpuDriver::open(kFake);
  ASSERT_TRUE(driver.has_value());
  const auto gpus = (*driver)->gpus();
  ASSERT_TRUE(gpus.has_value());
  ASSERT_THAT(gpus->front().processes, SizeIs(40));
  EXPECT_EQ(gpus->front().processes[39].pid, 139);
  EXPECT_EQ(gpus->front().processes[39].memory_bytes, 0);  // not told
}

TEST_F(GpuTest, EnergyIsInJoulesAndOfTheGpuAskedFor) {
  const auto driver = GpuDriver::open(kFake);
  ASSERT_TRUE(driver.has_value());
  EXPECT_DOUBLE_EQ((*driver)->energy_joules(0).value_or(0), 1.5);
  EXPECT_DOUBLE_EQ((*driver)->energy_joules(1).value_or(0), 2.5);
  EXPECT_FALSE((*driver)->energy_joules(2).has_value());
  EXPECT_FALSE((*driver)->energy_joules(-1).has_value());
}

TEST_F(GpuTest, UseIsThatOfTheGpuAskedForInOneUnitEach) {
  const auto driver = GpuDriver::open(kFake);
  ASSERT_TRUE(driver.has_value());
  const auto use = (*driver)->use(0);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->activity, 0.97);
  EXPECT_EQ(use->memory_activity, 0.4);
  EXPECT_EQ(use->power_watts, 612.25);
  EXPECT_EQ(use->power_limit_watts, 699.5);
  EXPECT_EQ(use->sm_clock_mhz, 1980);
  EXPECT_EQ(use->memory_clock_mhz, 3201);
  EXPECT_EQ(use->memory_used_bytes, 1ULL << 30);
  EXPECT_EQ(use->temperature_c, 41);
  // An idle GPU answers 0, which is not the same as no answer.
  EXPECT_EQ((*driver)->use(1).value_or({}).activity, 0.0);
  EXPECT_FALSE((*driver)->use(2).has_value());
  EXPECT_FALSE((*driver)->use(-1).has_value());
}

TEST_F(GpuTest, AGpuThatTellsNothingHasNoUse) {
  set(0, 3, 1);
  const auto driver = GpuDriver::open(kFake);
  ASSERT_TRUE(driver.has_value());
  const auto use = (*driver)->use(0);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->activity, std::nullopt);
  EXPECT_EQ(use->power_watts, std::nullopt);
  EXPECT_EQ(use->sm_clock_mhz, std::nullopt);
  EXPECT_EQ(use->temperature_c, std::nullopt);
}

TEST_F(GpuTest, OthersOnTheGpuAreNamedAndOurselvesAreNot) {
  set(0, 0, 3);  // pids 100, 101 and 102
  std::string proc = testing::TempDir() + "proc_XXXXXX";
  ASSERT_NE(mkdtemp(proc.data()), nullptr);
  std::filesystem::create_directory(proc + "/102");
  std::ofstream(proc + "/102/comm") << "python3\x1b[2J\n";
  const auto driver = GpuDriver::open(kFake);
  ASSERT_TRUE(driver.has_value());
  const auto others = (*driver)->other_processes(0, 101, proc);
  ASSERT_TRUE(others.has_value());
  ASSERT_THAT(*others, SizeIs(2));
  EXPECT_EQ((*others)[0].pid, 100);
  EXPECT_EQ((*others)[0].memory_bytes, 5 << 20);
  EXPECT_EQ((*others)[0].name, "");  // of another pid namespace
  EXPECT_EQ((*others)[1].pid, 102);
  EXPECT_EQ((*others)[1].name, "python3?[2J");  // whoever names a process does not move our cursor
  EXPECT_THAT((*driver)->other_processes(1, 101, proc).value_or({{}}), SizeIs(0));
  EXPECT_FALSE((*driver)->other_processes(2, 101, proc).has_value());
  EXPECT_FALSE((*driver)->other_processes(-1, 101, proc).has_value());
  std::filesystem::remove_all(proc);
}

TEST_F(GpuTest, ADriverThatIsNotLoadedMattersOnlyWhereThereIsAGpu) {
  set(9, 0, 0);
  std::string folder = testing::TempDir() + "gpu_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto plant = [&](const std::string& device, const char* vendor, const char* kind) {
    std::filesystem::create_directories(folder + "/" + device);
    std::ofstream(folder + "/" + device + "/vendor") << vendor << "\n";
    std::ofstream(folder + "/" + device + "/class") << kind << "\n";
  };
  plant("0000:00:01.0", "0x8086", "0x030000");  // somebody else's GPU
  plant("0000:00:02.0", "0x10de", "0x020000");  // NVIDIA's network card
  const auto without = GpuDriver::open(kFake, folder);
  ASSERT_FALSE(without.has_value());
  EXPECT_EQ(without.error().code, Code::not_found);

  plant("0000:00:03.0", "0x10de", "0x030200");
  const auto driver = GpuDriver::open(kFake, folder);
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, Code::unavailable);
  EXPECT_THAT(driver.error().message, HasSubstr("Driver Not Loaded"));
  EXPECT_THAT(driver.error().message, HasSubstr("modprobe nvidia"));
  std::filesystem::remove_all(folder);
}

TEST_F(GpuTest, AGpuThatTellsNothingIsListedAllTheSame) {
  set(0, 3, 1);
  const auto driver = GpuDriver::open(kFake);
  ASSERT_TRUE(driver.has_value());
  const auto gpus = (*driver)->gpus();
  ASSERT_TRUE(gpus.has_value());
  ASSERT_THAT(*gpus, SizeIs(2));
  EXPECT_EQ(gpus->front().name, "");
  EXPECT_EQ(gpus->front().memory_bytes, 0);
  EXPECT_THAT(gpus->front().processes, SizeIs(0));
  const auto energy = (*driver)->energy_joules(0);
  ASSERT_FALSE(energy.has_value());
  EXPECT_EQ(energy.error().code, Code::unavailable);
}

}  // namespace
}  // namespace tern
