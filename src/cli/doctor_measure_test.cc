// The measurements of `tern doctor`: that they measure, end in time and leave nothing behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "cli/doctor_cpu.h"
#include "cli/doctor_disk.h"
#include "cli/doctor_kernels.h"
#include "cli/doctor_trainer.h"
#include "cli/find_trainer.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

class DoctorMeasureTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "doctor_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A tern-train that does what the test says, in the shell's words.
  TrainerQuestion ask_script(const std::string& script) const {
    const fs::path trainer = folder_ / "tern-train";
    std::ofstream(trainer) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(trainer, fs::perms::owner_all);
    return {.trainer = trainer, .device = "cpu"};
  }

  fs::path folder_;
  SystemClock clock_;
};

TEST_F(DoctorMeasureTest, ThePeakIsThatOfACpu) {
  const CpuPeak peak = measure_cpu_peak(clock_, 1, milliseconds(60));
  // Far below any, also of a sanitizer on a busy machine: it is the unit that is tried.
  EXPECT_GT(peak.gflops, 0.01);
  EXPECT_LT(peak.gflops, 2000);  // one core
  EXPECT_GT(peak.cpu_share, 0);
  EXPECT_LE(peak.cpu_share, 1);
  EXPECT_NE(peak.instructions, "");
}

TEST_F(DoctorMeasureTest, ThreadsThatOutnumberTheCoresHaveOnlyAShareOfThem) {
  const int64_t cores = usable_cores();
  const CpuPeak peak = measure_cpu_peak(clock_, 4 * cores, milliseconds(300));
  EXPECT_LT(peak.cpu_share, 0.7);
}

TEST(DoctorKernels, ThePeaksLoopDoesItsRounds) {
  const PeakKernel kernel = choose_peak_kernel();
  EXPECT_NEAR(kernel.run(0), 10.045, 0.001);  // ten sums, from 1 to 1.009
  EXPECT_NEAR(kernel.run(1), 10.04455, 0.0001);
  EXPECT_NEAR(kernel.run(5000), 10, 0.0001);
}

TEST_F(DoctorMeasureTest, MemoryIsMeasuredWhereThereIsAny) {
  EXPECT_GT(measure_memory_gb_s(clock_, 2, 8 << 20, milliseconds(30)), 0.001);
  EXPECT_EQ(measure_memory_gb_s(clock_, 2, 8, milliseconds(30)), 0);
}

TEST(DoctorMemoryTestBytes, AreMoreThanTheCacheAndLessThanTheMemory) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(memory_test_bytes(0, 0), 64 * kMiB);
  EXPECT_EQ(memory_test_bytes(100 * kMiB, 100000 * kMiB), 400 * kMiB);
  EXPECT_EQ(memory_test_bytes(1000 * kMiB, 100000 * kMiB), 1024 * kMiB);
  EXPECT_EQ(memory_test_bytes(100 * kMiB, 800 * kMiB), 100 * kMiB);
}

TEST_F(DoctorMeasureTest, TheDiskIsMeasuredAndNothingIsLeft) {
  const auto disk = measure_disk(folder_, clock_, {.bytes_max = 16 << 20, .fsyncs_max = 3});
  ASSERT_TRUE(disk.has_value()) << disk.error().message;
  EXPECT_GT(disk->bytes, 0);
  EXPECT_LE(disk->bytes, 16 << 20);
  EXPECT_GT(disk->write_mb_s, 0);
  EXPECT_GT(disk->free_bytes, 0);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(DoctorMeasureTest, AClockThatStandsStillEndsTheDiskTestAllTheSame) {
  SimClock clock;
  EXPECT_TRUE(measure_disk(folder_, clock, {.bytes_max = 10 << 20, .fsyncs_max = 2}).has_value());
}

TEST_F(DoctorMeasureTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_FALSE(measure_disk(folder_ / "gone", clock_).has_value());
}

// A process killed in the middle of writing leaves no file, as the file has no name.
TEST_F(DoctorMeasureTest, AKilledDiskTestLeavesNoFile) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The kernel ends a process that writes beyond this by SIGXFSZ.
    const rlimit limit{.rlim_cur = 12 << 20, .rlim_max = 12 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    SystemClock clock;
    measure_disk(folder_, clock, {.bytes_max = 64 << 20}).has_value();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << status;
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(DoctorMeasureTest, TheTrainerIsAskedWithItsEnvironment) {
  TrainerQuestion question = ask_script(
      R"(echo "a warning"; [ -z "${GONE+x}" ] || exit 1
echo "{\"device\":\"$2\",\"libtorch\":\"$1\",\"kernels\":\"$PLANTED\",\"float32_gflops\":12.5}")");
  setenv("GONE", "here", 1);
  setenv("PLANTED", "the old one", 1);
  question.environment = {{"PLANTED", "AVX2"}, {"GONE", std::nullopt}};
  const auto speed = ask_trainer(question, clock_);
  unsetenv("GONE");
  unsetenv("PLANTED");
  ASSERT_TRUE(speed.has_value()) << speed.error().message;
  EXPECT_EQ(speed->device, "cpu");
  EXPECT_EQ(speed->libtorch, "--probe-speed");
  EXPECT_EQ(speed->kernels, "AVX2");
  EXPECT_EQ(speed->float32_gflops, 12.5);
  EXPECT_FALSE(speed->bfloat16_gflops.has_value());
}

TEST_F(DoctorMeasureTest, ATrainerThatFailsIsQuoted) {
  const auto speed =
      ask_trainer(ask_script("echo 'tern: libcudart.so.13: cannot open' >&2; exit 1"), clock_);
  ASSERT_FALSE(speed.has_value());
  EXPECT_EQ(speed.error().code, Code::unavailable);
  EXPECT_THAT(speed.error().message, HasSubstr("LibTorch: libcudart.so.13: cannot open"));
}

TEST_F(DoctorMeasureTest, AnAnswerForAnotherDeviceIsRefused) {
  TrainerQuestion question = ask_script(R"(echo '{"device":"cpu","float32_gflops":12.5}')");
  EXPECT_TRUE(ask_trainer(question, clock_).has_value());
  question.device = "cuda:0";
  EXPECT_FALSE(ask_trainer(question, clock_).has_value());
}

TEST_F(DoctorMeasureTest, ATrainerThatHangsIsEndedInTime) {
  TrainerQuestion question = ask_script("echo '{'; exec sleep 1000");
  question.limit = milliseconds(100);
  const auto speed = ask_trainer(question, clock_);
  ASSERT_FALSE(speed.has_value());
  EXPECT_EQ(speed.error().code, Code::deadline_exceeded);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
}

TEST_F(DoctorMeasureTest, ATrainerThatFloodsIsEnded) {
  EXPECT_FALSE(ask_trainer(ask_script("exec yes"), clock_).has_value());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(DoctorMeasureTest, ATrainerThatCannotStartIsNamed) {
  const auto speed = ask_trainer({.trainer = folder_ / "none", .device = "cpu"}, clock_);
  ASSERT_FALSE(speed.has_value());
  EXPECT_THAT(speed.error().message, HasSubstr("cannot start"));
}

TEST(DoctorTrainerAnswer, WhatIsNoMeasurementIsAnError) {
  for (const char* output :
       {"", "\n\n", "{}", "[1]", "{\"float32_gflops\":\"fast\"}", "{\"float32_gflops\":0}",
        "{\"float32_gflops\":-1}", "{\"float32_gflops\":1", "\xff\xfe{", "null"}) {
    EXPECT_FALSE(parse_trainer_answer(output).has_value()) << output;
  }
  EXPECT_THAT(parse_trainer_answer("").error().message, HasSubstr("it said nothing"));
}

TEST_F(DoctorMeasureTest, TheTrainerIsFoundBesideTernAndAboveIt) {
  EXPECT_EQ(find_trainer(folder_ / "bin/tern").error().code, Code::not_found);
  fs::create_directories(folder_ / "libexec");
  fs::create_directories(folder_ / "bin");
  std::ofstream(folder_ / "libexec/tern-train") << "";
  fs::permissions(folder_ / "libexec/tern-train", fs::perms::owner_all);
  EXPECT_EQ(find_trainer(folder_ / "bin/tern").value_or(""), folder_ / "libexec/tern-train");
  EXPECT_EQ(find_trainer(folder_ / "tern").value_or(""), folder_ / "libexec/tern-train");
}

}  // namespace
}  // namespace tern
