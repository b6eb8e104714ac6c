#include "report/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/mutex.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(SystemCounters, TheMachinesTimeIsAllCoresTogetherWithoutGuests) {
  const auto ticks = parse_machine_ticks("cpu  100 20 30 400 50 6 7 8 90 1\ncpu0 1 2 3 4 5\n");
  EXPECT_EQ(ticks, (MachineTicks{.busy = 171, .total = 621}));
  EXPECT_EQ(parse_machine_ticks("cpu  1 2 3 4 5\n"), (MachineTicks{.busy = 6, .total = 15}));
  for (const char* bad : {"", "cpu", "cpu  1 2 3\n", "cpu0 1 2 3 4 5\n", "cpu  a b c d e\n"}) {
    EXPECT_EQ(parse_machine_ticks(bad), std::nullopt) << bad;
  }
}

TEST(SystemCounters, AProcessMayBeNamedAnything) {
  const std::string numbers = "S 1 4711 4711 0 -1 4194304 9 0 0 0 123 45 0 0 20 0 3 0 88 1000 7";
  EXPECT_EQ(parse_process_ticks("4711 (tern-train) " + numbers), 168);
  EXPECT_EQ(parse_process_ticks("4711 (a) S 9 9 (b c) " + numbers), 168);
  for (const char* bad : {"", "4711", "4711 (a)", "4711 (a) S", "4711 (a) S 1 2 3",
                          "4711 (a) S 1 2 3 4 -1 6 7 8 9 10 x 45"}) {
    EXPECT_EQ(parse_process_ticks(bad), std::nullopt) << bad;
  }
}

TEST(SystemCounters, MemoryAndDiskAreFoundByTheirNames) {
  EXPECT_EQ(parse_resident_pages("1000 250 30 4 0 5 0\n"), 250);
  EXPECT_EQ(parse_resident_pages("1000"), std::nullopt);
  EXPECT_EQ(parse_available_bytes("MemTotal: 100 kB\nMemAvailable:   60 kB\n"), 61440);
  EXPECT_EQ(parse_available_bytes("MemTotal: 100 kB\nMemAvailableSoon: 60 kB\n"), std::nullopt);
  EXPECT_EQ(parse_disk_bytes("rchar: 9\nwchar: 8\nread_bytes: 4096\nwrite_bytes: 512\n"
                             "cancelled_write_bytes: 7\n"),
            (DiskBytes{.read = 4096, .written = 512}));
  EXPECT_EQ(parse_disk_bytes("read_bytes: 4096\n"), std::nullopt);
}

TEST(SystemCounters, EachInterfaceThatMovedBytesIsListed) {
  constexpr char kText[] =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
      "    lo:       0       0    0    0    0     0          0         0        0       0    0\n"
      "  eth0: 1500 10 0 0 0 0 0 0 2500 20 0 0 0 0 0 0\n"
      "eth0.7:99 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
      "broken: 1 2 3\n";
  EXPECT_THAT(parse_interface_bytes(kText),
              ElementsAre(InterfaceBytes{"eth0", 1500, 2500}, InterfaceBytes{"eth0.7", 99, 0}));
  EXPECT_THAT(parse_interface_bytes(""), IsEmpty());
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "veth" + std::to_string(i) + ": 1 0 0 0 0 0 0 0 1 0\n";
  EXPECT_EQ(parse_interface_bytes(many).size(), 16U);
}

TEST(SystemCounters, ThisMachineTells) {
  const SystemCounters counters = read_system_counters("/proc");
  EXPECT_TRUE(counters.process_ticks.has_value());
  EXPECT_GT(counters.resident_bytes.value_or(0), 1 << 20);
  EXPECT_GT(counters.available_bytes.value_or(0), 1 << 20);
}

TEST(SystemCounters, ACounterThatWentBackIsLeftOut) {
  const SystemCounters before = {.process_ticks = 500,
                                 .disk = DiskBytes{100, 100},
                                 .network = {{"eth0", 1000, 1000}, {"gone", 1, 1}}};
  const SystemCounters after = {.process_ticks = 700,
                                .disk = DiskBytes{50, 300},
                                .network = {{"eth0", 10, 3000}, {"new", 5, 5}}};
  std::map<std::string, double> use;
  for (const Scalar& value : system_use(before, after, 2.0, 100.0)) use[value.tag] = value.value;
  EXPECT_EQ(use, (std::map<std::string, double>{{"cpu_process_cores", 1.0},
                                                {"disk_written_bytes_per_second", 100.0},
                                                {"net/eth0/sent_bytes_per_second", 1000.0}}));
}

class SamplerTest : public testing::Test {
 protected:
  SamplerTest() {
    std::string name = testing::TempDir() + "/tern-proc-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    proc_ = name;
    fs::create_directories(proc_ / "self");
    fs::create_directories(proc_ / "net");
  }
  ~SamplerTest() override { fs::remove_all(proc_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(proc_ / name) << text;
  }
  double value(const std::string& name) const {
    for (const Scalar& each : samples_.back().values) {
      if (each.tag == name) return each.value;
    }
    return -1;
  }
  Sampler::Sink keep() {
    return [this](const SystemSample& sample) { samples_.push_back(sample); };
  }

  fs::path proc_;
  SimClock clock_;
  std::vector<SystemSample> samples_;
};

TEST_F(SamplerTest, ASampleIsWhatHappenedSinceTheOneBefore) {
  write("stat", "cpu  0 0 0 100 0\n");
  write("self/io", "read_bytes: 0\nwrite_bytes: 0\n");
  Sampler sampler(
      {.proc = proc_, .gpu = [] { return std::vector<Scalar>{{"gpu/power_watts", 7}}; }}, clock_,
      keep());
  clock_.advance(std::chrono::seconds(4));
  write("stat", "cpu  30 0 0 170 0\n");
  write("self/io", "read_bytes: 4000\nwrite_bytes: 0\n");
  write("self/statm", "9 3 0\n");
  sampler.sample();
  ASSERT_EQ(samples_.size(), 1U);
  EXPECT_EQ(samples_[0].seconds, 4);
  EXPECT_DOUBLE_EQ(value("cpu_machine_share"), 0.3);
  EXPECT_DOUBLE_EQ(value("disk_read_bytes_per_second"), 1000);
  EXPECT_DOUBLE_EQ(value("memory_process_bytes"), 3.0 * static_cast<double>(sysconf(_SC_PAGESIZE)));
  EXPECT_DOUBLE_EQ(value("gpu/power_watts"), 7);
  EXPECT_EQ(value("cpu_process_cores"), -1);  // this /proc does not tell

  clock_.advance(std::chrono::seconds(1));
  write("self/io", "read_bytes: 4500\nwrite_bytes: 0\n");
  sampler.sample();
  EXPECT_DOUBLE_EQ(value("disk_read_bytes_per_second"), 500);
}

TEST_F(SamplerTest, TimeTooShortToMeasureIsNoSample) {
  Sampler sampler({.proc = proc_}, clock_, keep());
  sampler.sample();
  EXPECT_THAT(samples_, IsEmpty());
}

TEST_F(SamplerTest, ALongRunIsLookedAtLessAndLessOften) {
  Sampler sampler(
      {.period = Milliseconds(10), .samples_per_period = 3, .samples_before = 2, .proc = proc_},
      clock_, keep());
  EXPECT_EQ(sampler.period(), Milliseconds(10));
  clock_.advance(std::chrono::seconds(1));
  sampler.sample();
  EXPECT_EQ(sampler.period(), Milliseconds(20));
  const Sampler old({.period = Milliseconds(10), .samples_before = int64_t{1} << 50}, clock_,
                    keep());
  EXPECT_EQ(old.period(), Milliseconds(10 * 1024));  // and no less often than that
}

// Lets so many waits pass at once, and holds the next one until it is told to stop.
class HeldClock final : public Clock {
 public:
  explicit HeldClock(int waits) : waits_(waits) {}
  Nanoseconds now() override { return sim_.now(); }
  int64_t unix_ms() override { return sim_.unix_ms(); }
  bool wait_for(Nanoseconds duration, std::stop_token stop) override {
    if (waits_-- > 0) return sim_.wait_for(duration, stop);
    MutexLock lock(mutex_);
    is_held_ = true;
    changed_.notify_all();
    changed_.wait(lock, stop, [] { return false; });
    return false;
  }
  void wait_until_held() {
    MutexLock lock(mutex_);
    changed_.wait(lock, [this] { return is_held_; });
  }
  void advance(Nanoseconds by) { sim_.advance(by); }

 private:
  SimClock sim_;
  int waits_;  // the sampler's thread's
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_held_ = false;
};

TEST_F(SamplerTest, StoppingEndsTheThreadAtOnceAndTakesALastSample) {
  HeldClock clock(0);
  Sampler sampler({.period = std::chrono::hours(1), .proc = proc_}, clock, keep());
  sampler.start();
  clock.wait_until_held();
  clock.advance(std::chrono::seconds(3));
  sampler.stop();
  ASSERT_EQ(samples_.size(), 1U);
  EXPECT_EQ(samples_[0].seconds, 3);
  sampler.stop();
  EXPECT_EQ(samples_.size(), 1U);
}

TEST_F(SamplerTest, TheThreadSamplesEveryPeriodAndTakesNoneWhenItsOwnerGoes) {
  HeldClock clock(3);
  {
    Sampler sampler({.period = std::chrono::seconds(10), .proc = proc_}, clock, keep());
    sampler.start();
    clock.wait_until_held();
    clock.advance(std::chrono::seconds(3));
  }
  ASSERT_EQ(samples_.size(), 3U);
  EXPECT_EQ(samples_[2].seconds, 10);
}

TEST(SampleLine, IsOneLineOfJsonWithNumbersAsLongAsTheyNeedToBe) {
  const std::string line = sample_line(
      {.unix_ms = 5, .seconds = 10.00049, .values = {{"a", 1.0 / 3}, {"b", 123456789.7}}}, 7, 9);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto record = nlohmann::json::parse(line);
  EXPECT_EQ(record.at("ms"), 5);
  EXPECT_EQ(record.at("step"), 7);
  EXPECT_EQ(record.at("lease"), 9);
  EXPECT_EQ(record.at("seconds"), 10.0);
  EXPECT_EQ(record.at("values").at("a"), 0.3333);
  EXPECT_EQ(record.at("values").at("b"), 123456790.0);
}

}  // namespace
}  // namespace tern
