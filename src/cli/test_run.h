// Runs for tests of the commands: folders with the records that a trainer leaves.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "core/clock.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "storage/prefix_store.h"
#include "storage/sequence.h"
#include "train/train_state.h"

namespace tern {

inline Holder dead_holder() {
  Holder holder = *this_process();
  holder.token = "a process that is gone";
  holder.pid_start -= 1;
  return holder;
}

// A folder of its own, removed with the object.
class TestRuns {
 public:
  TestRuns() {
    std::string name = testing::TempDir() + "/tern-runs-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = std::filesystem::path(name).lexically_normal();
  }
  ~TestRuns() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestRuns(const TestRuns&) = delete;
  TestRuns& operator=(const TestRuns&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  // Writes `text` to NAME/FILE, whatever it is.
  void write(const std::string& name, const std::string& file, const std::string& text) const {
    const std::filesystem::path path = path_ / name / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // The ledger of a run that ended as said at step 12 of 20.
  void write_ledger(const std::string& name, const std::string& status) const {
    write(name, "ledger.jsonl",
          R"({"ms":1000,"kind":"start","step":0,"total_steps":20,"host":"h","pid":1})"
          "\n"
          R"({"ms":5000,"kind":"evaluation","step":12,"epoch":1,"top1":0.875})"
          "\n"
          R"({"ms":9000,"kind":"end","step":12,"status":")" +
              status + "\"}\n");
  }
  // Takes the run's sequence and publishes one checkpoint for each step, which is then its blob as
  // well. The holder is gone for good only after release().
  std::unique_ptr<Sequence> publish(const std::string& name, const Holder& holder,
                                    const std::vector<int64_t>& steps, int64_t best_step = -1) {
    stores_.push_back(DiskStore::open(path_ / name, door_).value());
    prefixes_.push_back(std::make_unique<PrefixStore>(*stores_.back(), "checkpoints"));
    auto sequence = Sequence::take(
        {.store = prefixes_.back().get(), .clock = &clock_, .me = holder}, std::stop_token());
    EXPECT_TRUE(sequence.has_value()) << sequence.error().to_string();
    if (!sequence) return nullptr;
    for (const int64_t step : steps) {
      const CheckpointText text{.state = {.step = step}, .steps_per_epoch = 6};
      const Result<int64_t> published = (*sequence)->publish(
          *format_state(text, {}), {std::to_string(step) + " weights"}, step == best_step);
      EXPECT_TRUE(published.has_value()) << published.error().to_string();
      clock_.advance(std::chrono::seconds(60));
    }
    return std::move(*sequence);
  }

  RealFileDoor& door() { return door_; }

 private:
  std::filesystem::path path_;
  RealFileDoor door_;
  SimClock clock_;
  std::vector<std::unique_ptr<DiskStore>> stores_;
  std::vector<std::unique_ptr<PrefixStore>> prefixes_;
};

// stdout of a command, which must succeed with `exit_code`.
template <typename Run>
std::string output_of(Run run, int exit_code = 0) {
  testing::internal::CaptureStdout();
  const auto result = run();
  std::fflush(stdout);
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(result.has_value()) << result.error().to_string();
  EXPECT_EQ(result.value_or(-1), exit_code);
  return out;
}

}  // namespace tern
