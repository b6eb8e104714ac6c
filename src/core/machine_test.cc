#include "core/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <thread>

#include "core/system_files.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// A tree of files as Linux would show them, planted below a folder of the test's own.
class MachineTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "machine_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void plant(const fs::path& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path, std::ios::binary) << text;
  }
  void plant_dmi(const std::string& vendor, const std::string& product) const {
    plant("sys/class/dmi/id/sys_vendor", vendor + "\n");
    plant("sys/class/dmi/id/product_name", product + "\n");
  }
  Machine read() const { return read_machine(folder_); }

  fs::path folder_;
};

TEST_F(MachineTest, WithoutAnyFileOnlyTheCoresAreKnown) {
  const Machine machine = read();
  EXPECT_GE(machine.cores, 1);
  EXPECT_LE(machine.cores, static_cast<int64_t>(std::thread::hardware_concurrency()));
  EXPECT_EQ(machine.cpu, "");
  EXPECT_THAT(machine.cpu_features, IsEmpty());
  EXPECT_FALSE(cpu_has_bfloat16(machine));
  EXPECT_EQ(machine.memory_bytes, 0);
  EXPECT_EQ(machine.cpu_limit, 0);
  EXPECT_EQ(machine.memory_limit_bytes, 0);
  EXPECT_EQ(machine.container, "");
  EXPECT_EQ(machine.cloud, "");
}

TEST_F(MachineTest, ANitroMachineTellsItsType) {
  plant_dmi("Amazon EC2", "g5.xlarge");
  plant("proc/cpuinfo",
        "processor\t: 0\nmodel\t\t: 49\nmodel name\t: AMD EPYC 7R32\n"
        "flags\t\t: fpu sse2 avx fma avx2 avx512 f16c avx512f_not amx_bf16\n\n"
        "processor\t: 1\nmodel name\t: another\nflags\t\t: avx512f\n");
  plant("proc/meminfo", "MemTotal:       16384000 kB\nMemFree:        1 kB\n");
  plant("proc/sys/kernel/osrelease", "6.1.0-18-cloud-amd64\n");
  plant("etc/os-release", "NAME=\"x\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  const Machine machine = read();
  EXPECT_EQ(machine.cloud, "aws");
  EXPECT_EQ(machine.instance_type, "g5.xlarge");
  EXPECT_EQ(machine.cpu, "AMD EPYC 7R32");
  EXPECT_THAT(machine.cpu_features, ElementsAre("sse2", "avx", "f16c", "fma", "avx2", "amx_bf16"));
  EXPECT_TRUE(cpu_has_bfloat16(machine));
  EXPECT_EQ(machine.memory_bytes, int64_t{16384000} * 1024);
  EXPECT_EQ(machine.kernel, "6.1.0-18-cloud-amd64");
  EXPECT_EQ(machine.system, "Debian GNU/Linux 12 (bookworm)");
}

TEST_F(MachineTest, AnAmazonMachineOlderThanNitroHasNoType) {
  plant_dmi("Xen", "HVM domU");
  plant("sys/class/dmi/id/board_vendor", "Amazon EC2\n");
  EXPECT_EQ(read().cloud, "aws");
  EXPECT_EQ(read().instance_type, "");
}

TEST_F(MachineTest, GoogleIsKnownByItsTablesAndItsTypeIsNot) {
  plant_dmi("Google", "Google Compute Engine");
  EXPECT_EQ(read().cloud, "gcp");
  EXPECT_EQ(read().instance_type, "");
}

TEST_F(MachineTest, AzureIsKnownByItsTagAndNotByMicrosoftAlone) {
  plant_dmi("Microsoft Corporation", "Virtual Machine");
  EXPECT_EQ(read().cloud, "");  // Hyper-V at somebody's desk
  plant("sys/class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n");
  EXPECT_EQ(read().cloud, "azure");
  EXPECT_EQ(read().instance_type, "");
}

TEST_F(MachineTest, PodmanTellsItsImage) {
  plant("run/.containerenv",
        "engine=\"podman-4.3.1\"\nimage=\"localhost/tern:1\"\nimageid=\"f\"\n");
  EXPECT_EQ(read().container, "podman");
  EXPECT_EQ(read().container_image, "localhost/tern:1");
}

TEST_F(MachineTest, ContainersAreToldApartAndKubernetesIsToldFirst) {
  fs::create_directories(folder_ / ".singularity.d");
  EXPECT_EQ(read().container, "apptainer");
  plant(".dockerenv", "");
  EXPECT_EQ(read().container, "docker");
  fs::create_directories(folder_ / "var/run/secrets/kubernetes.io");
  EXPECT_EQ(read().container, "kubernetes");
  EXPECT_EQ(read().container_image, "");
}

TEST_F(MachineTest, TheTightestLimitAboveTheOwnGroupHolds) {
  plant("proc/self/cgroup", "0::/job.slice/run\n");
  plant("sys/fs/cgroup/job.slice/cpu.max", "150000 100000\n");
  plant("sys/fs/cgroup/job.slice/run/cpu.max", "max 100000\n");
  plant("sys/fs/cgroup/job.slice/memory.max", "max\n");
  plant("sys/fs/cgroup/job.slice/run/memory.max", "4294967296\n");
  EXPECT_DOUBLE_EQ(read().cpu_limit, 1.5);
  EXPECT_EQ(read().memory_limit_bytes, int64_t{4} << 30);
  plant("sys/fs/cgroup/job.slice/run/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(read().cpu_limit, 0.5);
}

TEST_F(MachineTest, AContainerSeesItsOwnGroupAsTheRoot) {
  plant("proc/self/cgroup", "0::/../../kubepods/not/here\n");
  plant("sys/fs/cgroup/cpu.max", "200000 100000");
  plant("sys/fs/cgroup/memory.max", "1073741824");
  EXPECT_DOUBLE_EQ(read().cpu_limit, 2);
  EXPECT_EQ(read().memory_limit_bytes, int64_t{1} << 30);
}

TEST_F(MachineTest, VersionOneLimitsAreReadAndItsHugeNumberIsNone) {
  plant("proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n9:name=systemd:/job\n");
  plant("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  plant("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  plant("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read().cpu_limit, 0);
  EXPECT_EQ(read().memory_limit_bytes, 0);
  plant("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n");
  plant("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  plant("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(read().cpu_limit, 3);
  EXPECT_EQ(read().memory_limit_bytes, int64_t{2} << 30);
}

TEST_F(MachineTest, GarbageIsPassedOverAndTextStaysPrintable) {
  std::string noise;
  for (unsigned i = 0; i < 300000; ++i) noise += static_cast<char>(i * 7919 / 3 % 256);
  for (const char* file :
       {"proc/meminfo", "proc/self/cgroup", "etc/os-release", "run/.containerenv",
        "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/memory.max", "sys/class/dmi/id/sys_vendor"}) {
    plant(file, noise);
  }
  plant("proc/cpuinfo",
        "model name\t: \xff\x01"
        "CPU\nflags : " +
            noise);
  fs::create_directories(folder_ / "proc/sys/kernel/osrelease");  // a folder where a file should be
  const Machine machine = read();
  EXPECT_EQ(machine.cpu, "??CPU");
  EXPECT_EQ(machine.kernel, "");
  EXPECT_EQ(machine.memory_bytes, 0);
  EXPECT_EQ(machine.cpu_limit, 0);
  EXPECT_EQ(machine.memory_limit_bytes, 0);
  EXPECT_EQ(machine.cloud, "");
}

TEST_F(MachineTest, NumbersOutOfRangeAreNoLimits) {
  plant("proc/self/cgroup", "0::/\n");
  plant("proc/meminfo", "MemTotal: 99999999999999999999 kB\n");
  plant("sys/fs/cgroup/memory.max", "99999999999999999999\n");
  for (const char* cpu : {"1 0", "-5 100000", "100000", "", "1e5 100000", "100000 -1"}) {
    plant("sys/fs/cgroup/cpu.max", cpu);
    EXPECT_EQ(read().cpu_limit, 0) << cpu;
  }
  EXPECT_EQ(read().memory_bytes, 0);
  EXPECT_EQ(read().memory_limit_bytes, 0);
}

TEST(SystemFiles, ReadsAreBounded) {
  EXPECT_EQ(read_system_file("/dev/zero").size(), size_t{64} << 10);
}

TEST(Machine, ThisOneIsRead) {
  const Machine machine = read_machine();
  EXPECT_GT(machine.memory_bytes, 0);
  EXPECT_NE(machine.kernel, "");
}

}  // namespace
}  // namespace tern
