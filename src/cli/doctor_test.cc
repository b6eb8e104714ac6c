// What `tern doctor` makes of a machine, on machines that never were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "cli/doctor_findings.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// A machine of eight cores on which nothing is wrong, with a GPU or without.
Findings sound_machine() {
  Findings findings;
  findings.machine = {.cpu = "AMD EPYC 9R14",
                      .cpu_features = {"sse2", "avx", "fma", "avx2"},
                      .cores = 8,
                      .memory_bytes = int64_t{32} << 30,
                      .kernel = "6.1.0",
                      .system = "Debian GNU/Linux 12 (bookworm)"};
  findings.load = 0.1;
  findings.libtorch = std::string("/opt/torch");
  findings.gpus = fail(Code::not_found, "no NVIDIA driver");
  findings.peak = {.gflops = 800, .cpu_share = 0.99, .instructions = "avx2"};
  findings.memory_gb_s = 40;
  findings.cpu_speed =
      TrainerSpeed{.device = "cpu", .libtorch = "2.11.0", .kernels = "AVX2", .float32_gflops = 700};
  findings.disk = DiskSpeed{.folder = "/data",
                            .kind = "ext4",
                            .free_bytes = 100'000'000'000,
                            .bytes = 256 << 20,
                            .write_mb_s = 900,
                            .read_mb_s = 2000,
                            .fsync_ms = 1.5};
  return findings;
}

Findings sound_gpu_machine() {
  Findings findings = sound_machine();
  findings.driver = "580.159.04";
  findings.cuda = "13.0";
  findings.gpus = std::vector<Gpu>{{.index = 0,
                                    .name = "NVIDIA H200",
                                    .capability_major = 9,
                                    .memory_bytes = int64_t{141} << 30,
                                    .temperature_c = 40}};
  findings.gpu_speed = TrainerSpeed{
      .device = "cuda:0", .libtorch = "2.11.0", .float32_gflops = 50000, .bfloat16_gflops = 700000};
  return findings;
}

Gpu& first_gpu(Findings& findings) { return findings.gpus->value().front(); }
TrainerSpeed& cpu_speed(Findings& findings) { return findings.cpu_speed->value(); }
DiskSpeed& disk(Findings& findings) { return findings.disk->value(); }

// The one thing that is wrong, with what to do; fails if there are more or none.
std::string only_advice(const Findings& findings) {
  const std::vector<Advice> list = judge(findings);
  if (list.size() != 1) {
    ADD_FAILURE() << "not one advice: " << describe_advice(list);
    return "";
  }
  return list.front().what + ". " + list.front().to_do;
}

std::string everything(const Findings& findings) {
  return describe_machine(findings) + describe_libtorch(findings) + describe_gpus(findings) +
         describe_peak(findings) + describe_cpu_speed(findings) + describe_gpu_speed(findings) +
         describe_memory_speed(findings) + describe_disk(findings) +
         describe_advice(judge(findings));
}

TEST(DoctorJudge, ASoundMachineIsLeftAlone) {
  EXPECT_THAT(judge(sound_machine()), IsEmpty());
  EXPECT_THAT(judge(sound_gpu_machine()), IsEmpty());
  EXPECT_EQ(doctor_exit_code(sound_machine()), kExitDone);
}

TEST(DoctorJudge, NothingMeasuredYetIsNothingWrong) {
  EXPECT_THAT(judge(Findings{}), IsEmpty());
  EXPECT_EQ(doctor_exit_code(Findings{}), kExitDone);
}

// It is busy, and can train: a launch must not fail of that.
TEST(DoctorJudge, AMeasurementThatTakesTooLongIsToldAndStopsNothing) {
  Findings findings = sound_machine();
  findings.cpu_speed = fail(Code::deadline_exceeded, "tern-train did not measure cpu within 8 s");
  EXPECT_THAT(only_advice(findings), HasSubstr("did not measure cpu"));
  EXPECT_FALSE(judge(findings).front().stops);
  EXPECT_EQ(doctor_exit_code(findings), kExitDone);
  findings.cpu_speed = fail(Code::unavailable, "LibTorch does not load");
  EXPECT_TRUE(judge(findings).front().stops);
  EXPECT_EQ(doctor_exit_code(findings), kExitUnavailable);
}

TEST(DoctorJudge, AMissingLibTorchStopsAndComesFirst) {
  Findings findings = sound_machine();
  findings.memory_gb_s = 1;
  findings.cpu_speed.reset();
  findings.libtorch =
      fail(Code::not_found, "LibTorch 2.11.0 was not found. Looked at:\n  here\n  there");
  const std::vector<Advice> list = judge(findings);
  ASSERT_THAT(list, SizeIs(2));
  EXPECT_TRUE(list[0].stops);
  EXPECT_THAT(list[0].what, HasSubstr("was not found"));
  EXPECT_FALSE(list[1].stops);
  EXPECT_EQ(doctor_exit_code(findings), kExitNotFound);
  EXPECT_THAT(describe_advice(list), AllOf(HasSubstr("!! LibTorch"), HasSubstr("\n  there\n")));
}

TEST(DoctorJudge, ALibTorchThatDoesNotLoadStops) {
  Findings findings = sound_machine();
  findings.cpu_speed = fail(Code::unavailable, "tern-train could not measure");
  EXPECT_THAT(only_advice(findings), HasSubstr("could not measure"));
  EXPECT_EQ(doctor_exit_code(findings), kExitUnavailable);
}

TEST(DoctorJudge, ACgroupsLimitIsToldOnceAndNotBlamedOnOthers) {
  Findings findings = sound_machine();
  findings.machine.cpu_limit = 1.5;
  findings.peak.cpu_share = 1.5 / 8;
  EXPECT_THAT(only_advice(findings),
              AllOf(HasSubstr("grants 1.5 of 8 cores"), HasSubstr("train.threads = 1,")));
  findings.machine.cpu_limit = 16;  // more than there are
  findings.peak.cpu_share = 0.99;
  EXPECT_THAT(judge(findings), IsEmpty());
}

TEST(DoctorJudge, OtherProcessesOnTheCoresAreSeen) {
  Findings findings = sound_machine();
  findings.peak.cpu_share = 0.6;
  findings.load = 5;
  cpu_speed(findings).float32_gflops = 100;  // is explained by it, and not told again
  EXPECT_THAT(only_advice(findings),
              AllOf(HasSubstr("only 60 % of the time"), HasSubstr("load 5.0 on 8 cores")));
}

TEST(DoctorJudge, AProductFarBelowThePeakIsExplainedByTheLoadIfThereIsOne) {
  Findings findings = sound_machine();
  cpu_speed(findings).float32_gflops = 160;
  EXPECT_THAT(only_advice(findings), AllOf(HasSubstr("reaches 20 % of the peak"),
                                           HasSubstr("OMP_*"), Not(HasSubstr("other processes"))));
  findings.load = 3.4;
  EXPECT_THAT(only_advice(findings), HasSubstr("other processes use the CPU (load 3.4)"));
  cpu_speed(findings).float32_gflops = 0.4 * 800;
  EXPECT_THAT(judge(findings), IsEmpty());
}

TEST(DoctorJudge, KernelsThatDoNotFitTheCpuAreSeen) {
  Findings findings = sound_machine();
  cpu_speed(findings).kernels = "DEFAULT";
  EXPECT_THAT(only_advice(findings), HasSubstr("ATEN_CPU_CAPABILITY"));
  findings.machine.cpu_features = {"sse2"};
  EXPECT_THAT(only_advice(findings), HasSubstr("shows no AVX2"));
}

TEST(DoctorJudge, Bfloat16ThatGainsNothingIsAdvisedAgainst) {
  Findings findings = sound_machine();
  cpu_speed(findings).bfloat16_gflops = 710;
  EXPECT_THAT(only_advice(findings), HasSubstr("train in float32"));
  cpu_speed(findings).bfloat16_gflops = 1400;
  EXPECT_THAT(judge(findings), IsEmpty());
}

TEST(DoctorJudge, LittleOrSlowMemoryIsSeenAndTheLimitCounts) {
  Findings findings = sound_machine();
  findings.memory_gb_s = 2;
  EXPECT_THAT(only_advice(findings), HasSubstr("2.0 GB/s"));
  findings.memory_gb_s = 40;
  findings.machine.memory_limit_bytes = int64_t{1} << 30;
  EXPECT_THAT(only_advice(findings), HasSubstr("1.0 GiB of memory"));
}

TEST(DoctorJudge, ASlowOrFleetingDiskIsSeen) {
  Findings findings = sound_machine();
  disk(findings).fsync_ms = 80;
  EXPECT_THAT(only_advice(findings),
              AllOf(HasSubstr("fsync takes 80 ms"), HasSubstr("local disk")));
  findings = sound_machine();
  disk(findings).write_mb_s = 12;
  disk(findings).read_mb_s = 20;
  EXPECT_THAT(judge(findings), SizeIs(2));
  findings = sound_machine();
  disk(findings).kind = "tmpfs";
  disk(findings).read_mb_s.reset();
  EXPECT_THAT(only_advice(findings), HasSubstr("vanish with the machine"));
  disk(findings).kind = "overlay";
  EXPECT_THAT(judge(findings), IsEmpty());
  findings.machine.container = "docker";
  EXPECT_THAT(only_advice(findings), HasSubstr("vanish with the container"));
  findings = sound_machine();
  disk(findings).free_bytes = 100'000'000;
  EXPECT_THAT(only_advice(findings), HasSubstr("0.1 GB of disk are free"));
}

TEST(DoctorJudge, AFolderThatCannotBeWrittenStops) {
  Findings findings = sound_machine();
  findings.disk = fail(Code::permission_denied, "cannot make a file in /data");
  EXPECT_THAT(only_advice(findings), HasSubstr("cannot make a file in /data"));
  EXPECT_TRUE(judge(findings).front().stops);
  EXPECT_EQ(doctor_exit_code(findings), kExitUnavailable);
}

TEST(DoctorJudge, AnOldDriverIsNamedAndItsFailureNotToldTwice) {
  Findings findings = sound_gpu_machine();
  findings.driver = "550.54.15";
  findings.gpu_speed = fail(Code::unavailable, "CUDA 13 does not run");
  EXPECT_THAT(only_advice(findings), AllOf(HasSubstr("550.54.15"), HasSubstr("580 or newer")));
  findings.driver = "580.0";
  EXPECT_THAT(only_advice(findings), HasSubstr("CUDA 13 does not run"));
  EXPECT_EQ(doctor_exit_code(findings), kExitDone);  // the CPU can train
}

TEST(DoctorJudge, AGpuThatIsOldHotOrTakenIsSeen) {
  Findings findings = sound_gpu_machine();
  first_gpu(findings).capability_major = 7;
  EXPECT_THAT(only_advice(findings), HasSubstr("needs 7.5"));
  first_gpu(findings).capability_minor = 5;
  EXPECT_THAT(judge(findings), IsEmpty());
  first_gpu(findings).temperature_c = 91;
  EXPECT_THAT(only_advice(findings), HasSubstr("91 degrees"));
  findings = sound_gpu_machine();
  first_gpu(findings).processes = {{.pid = getpid()}, {.pid = int64_t{1} << 40}};
  EXPECT_THAT(only_advice(findings),
              AllOf(HasSubstr(std::to_string(getpid()) + " ("), HasSubstr("), 1099511627776.")));
}

TEST(DoctorJudge, ADriverThatDoesNotWorkIsTold) {
  Findings findings = sound_machine();
  findings.gpus = fail(Code::unavailable, "the NVIDIA driver does not work: trouble");
  EXPECT_THAT(only_advice(findings), AllOf(HasSubstr("trouble"), HasSubstr("train.device=cpu")));
}

TEST(DoctorJudge, AGpuSlowerThanTheCpuIsSeen) {
  Findings findings = sound_gpu_machine();
  findings.gpu_speed->value().float32_gflops = 600;
  EXPECT_THAT(only_advice(findings), HasSubstr("more slowly than the CPU"));
}

TEST(DoctorOutput, FitsAScreensWidthAndSaysTheFigures) {
  Findings findings = sound_gpu_machine();
  findings.machine.cpu_limit = 1.5;
  findings.machine.memory_limit_bytes = int64_t{1} << 30;
  findings.machine.cloud = "aws";
  findings.machine.instance_type = "p5e.48xlarge";
  findings.driver = "550.1";
  disk(findings).fsync_ms = 80;
  const std::string text = everything(findings);
  for (const char* figure :
       {"grants the time of 1.5", "88 % of the peak", "800 GFLOP/s", "700.0 TFLOP/s in bfloat16",
        "40.0 GB/s", "writes 900 MB/s", "fsync 80 ms", "on aws p5e.48xlarge", "NVIDIA H200"}) {
    EXPECT_THAT(text, HasSubstr(figure));
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(DoctorOutput, APeakThatOthersHaveLoweredIsNoMeasure) {
  Findings findings = sound_machine();
  findings.peak = {.gflops = 500, .cpu_share = 0.6, .instructions = "avx2"};
  EXPECT_THAT(describe_cpu_speed(findings),
              AllOf(HasSubstr("700 GFLOP/s in float32"), Not(HasSubstr("%"))));
}

TEST(DoctorOutput, WithoutTroubleItSaysSo) {
  EXPECT_THAT(everything(sound_machine()), HasSubstr("Nothing is far below what it should be."));
}

TEST(DoctorOutput, JsonHasNullsForWhatIsNotKnown) {
  Findings findings;
  const nlohmann::json nothing = doctor_json(findings);
  EXPECT_TRUE(nothing.at("libtorch").is_null());
  EXPECT_TRUE(nothing.at("disk").is_null());
  EXPECT_TRUE(nothing.at("cpu_product").is_null());
  EXPECT_THAT(nothing.at("gpus"), IsEmpty());

  findings = sound_gpu_machine();
  disk(findings).fsync_ms = 80;
  const nlohmann::json answer = doctor_json(findings);
  EXPECT_EQ(answer.at("machine").at("cores"), 8);
  EXPECT_EQ(answer.at("gpus").at(0).at("capability"), "9.0");
  EXPECT_EQ(answer.at("gpu_product").at("bfloat16_gflops"), 700000);
  EXPECT_TRUE(answer.at("cpu_product").at("bfloat16_gflops").is_null());
  EXPECT_EQ(answer.at("advice").at(0).at("stops"), false);
  EXPECT_EQ(answer.at("exit_code"), 0);
}

TEST(DoctorCommand, RefusesWhatItDoesNotKnow) {
  const Result<int> code = doctor_command({}, {"--jsno"});
  ASSERT_FALSE(code.has_value());
  EXPECT_EQ(code.error().code, Code::invalid);
  EXPECT_THAT(code.error().message, HasSubstr("--json"));
}

}  // namespace
}  // namespace tern
