// The test that matters most. A run of 42 steps with augmentation and dropout is interrupted at
// every step, by a notice and by SIGKILL, and at every request that it makes of its store, by
// SIGKILL before it, after it and in the middle of it. Each time a new process resumes and
// finishes, and the losses, the weights and the optimizer's state must be those of the run that
// nobody interrupted, bit for bit.
//
// Each process of a run is a fork of this one, which itself never computes: LibTorch is loaded
// once, and a kill is a real one.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "core/log.h"
#include "storage/disk_store.h"
#include "storage/faulty_store.h"
#include "storage/file_door.h"
#include "storage/prefix_store.h"
#include "tiny_data.h"
#include "train/exit_codes.h"
#include "train/trainer.h"

namespace tern {
namespace {

constexpr int64_t kSteps = 42;  // 7 epochs of 6 batches, the last of each a smaller one
constexpr int kShards = 8;      // ctest runs them side by side

enum class Interruption { none, notice_at_step, kill_at_step, kill_before, kill_after, kill_torn };

struct Case {
  Interruption kind = Interruption::none;
  int64_t at = 0;  // step, or number of the request

  std::string to_string() const {
    static const char* const kNames[] = {"none",
                                         "notice at step",
                                         "SIGKILL at step",
                                         "SIGKILL before request",
                                         "SIGKILL after request",
                                         "SIGKILL in the middle of request"};
    return fmt::format("{} {}", kNames[static_cast<int>(kind)], at);
  }
};

RunConfig tiny_config(const std::filesystem::path& data) {
  RunConfig config;
  config.recipe = "tiny";
  config.data = {.format = "idx", .path = data.string(), .classes = 4};
  config.augment = {.pad_crop = 1, .flip = true};
  config.loader = {.threads = 1, .batches_ahead = 2};
  config.model = {.name = "small-cnn", .width = 4, .dropout = 0.2};
  config.optimizer = {
      .learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3};
  config.schedule = {.shape = "cosine", .warmup_epochs = 0.5};
  config.train = {.seed = 3, .batch = 16, .epochs = 7, .evaluate_batch = 20, .threads = 1};
  config.checkpoint = {.every = std::chrono::seconds(5), .keep = 2};
  return config;
}

Fault fault_of(Interruption kind) {
  if (kind == Interruption::kill_before) return Fault::fail_before;
  return kind == Interruption::kill_after ? Fault::fail_after : Fault::tear;
}

// One process of a run; never returns. The clock moves a second a step, so that checkpoints fall
// on every fifth.
[[noreturn]] void be_a_process(const std::filesystem::path& run, const RunConfig& config,
                               Case how) {
  RealFileDoor door;
  SimClock clock;
  std::FILE* quiet = std::fopen((run.string() + ".log").c_str(), "a");
  Log log(clock, Level::info, quiet);
  NoticeBoard board;
  auto disk = DiskStore::open(run, door);
  if (!disk.has_value()) _exit(kExitInternal);
  FaultyStore store(**disk);
  if (how.kind >= Interruption::kill_before) {
    store.inject(how.at, fault_of(how.kind), [] { raise(SIGKILL); });
  }
  const auto on_step = [&](const StepEvent& event) {
    clock.advance(std::chrono::seconds(1));
    if (event.step != how.at) return;
    if (how.kind == Interruption::kill_at_step) raise(SIGKILL);
    if (how.kind == Interruption::notice_at_step) board.post({.source = "the test"});
  };
  auto me = this_process();
  auto data = open_run_data(config);
  if (!me.has_value() || !data.has_value()) _exit(kExitInternal);
  const Result<Outcome> outcome = train({.config = config,
                                         .run_name = run.string(),
                                         .command = "test",
                                         .me = *me,
                                         .run = &store,
                                         .clock = &clock,
                                         .log = &log,
                                         .board = &board,
                                         .on_step = on_step},
                                        std::move(*data));
  if (!outcome.has_value()) log.error("test", outcome.error().to_string());
  write_text(run.string() + ".requests", fmt::format("{}", fmt::join(store.history(), "\n")));
  std::fflush(nullptr);
  _exit(outcome.has_value() ? outcome->exit_code : exit_code_of(outcome.error().code));
}

// Runs one process to its end; its exit code, or minus the signal that killed it.
int run_process(const std::filesystem::path& run, const RunConfig& config, Case how) {
  const pid_t child = fork();
  if (child == 0) be_a_process(run, config, how);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// What must be equal.
struct Remains {
  std::map<int64_t, std::string> losses;  // by step, as written
  std::string weights;                    // model.safetensors
  std::vector<std::string> blobs;         // hashes of the last checkpoint: weights and momentum
  std::string epochs;                     // every epoch's summary
  std::string complaint;                  // two processes recorded different losses for one step

  bool operator==(const Remains&) const = default;
};

Remains read_remains(const std::filesystem::path& run) {
  Remains remains;
  remains.weights = read_text(run / "model.safetensors");
  std::map<int64_t, std::string> epochs;
  std::istringstream lines(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded() || json.contains("process_begins")) continue;
    json.erase("ms");
    json.erase("lease");  // tells the processes apart
    auto& place = json.contains("epoch_done") ? epochs[json["epoch_done"].get<int64_t>()]
                                              : remains.losses[json["step"].get<int64_t>()];
    if (!place.empty() && place != json.dump()) remains.complaint += place + " and then " + line;
    place = json.dump();
  }
  for (const auto& [epoch, text] : epochs) remains.epochs += text + "\n";
  RealFileDoor door;
  auto disk = DiskStore::open(run, door);
  PrefixStore checkpoints(**disk, "checkpoints");
  const auto newest = newest_checkpoint(checkpoints);
  if (newest.has_value() && newest->found) {
    for (const Blob& blob : newest->found->record.blobs) remains.blobs.push_back(blob.sha256);
  }
  return remains;
}

int64_t line_count(const std::string& text) {
  return text.empty() ? 0 : 1 + std::count(text.begin(), text.end(), '\n');
}

// Each case that one shard runs; TERN_INTERRUPT_EVERY=8 takes every 8th (sanitizers are slow).
std::vector<Case> cases_of_shard(int shard, int64_t requests) {
  std::vector<Case> all;
  for (int64_t step = 1; step <= kSteps; ++step) {
    all.push_back({Interruption::notice_at_step, step});
    all.push_back({Interruption::kill_at_step, step});
  }
  for (int64_t request = 1; request <= requests; ++request) {
    all.push_back({Interruption::kill_before, request});
    all.push_back({Interruption::kill_after, request});
    all.push_back({Interruption::kill_torn, request});
  }
  const char* every_text = std::getenv("TERN_INTERRUPT_EVERY");
  const int64_t every = every_text == nullptr ? 1 : std::max(1, std::atoi(every_text));
  std::vector<Case> mine;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (index % every == 0 && (index / every) % kShards == shard) mine.push_back(all[i]);
  }
  return mine;
}

class ResumesToTheBit : public testing::TestWithParam<int> {};

TEST_P(ResumesToTheBit, WhereverItIsInterrupted) {
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  const RunConfig config = tiny_config(scratch / "data");
  const auto whole = scratch / "whole";
  ASSERT_EQ(run_process(whole, config, {}), kExitDone) << read_text(whole.string() + ".log");
  const Remains expected = read_remains(whole);
  ASSERT_EQ(expected.losses.size(), static_cast<size_t>(kSteps));
  ASSERT_FALSE(expected.weights.empty());
  ASSERT_EQ(expected.blobs.size(), 1u);

  const int64_t requests = line_count(read_text(whole.string() + ".requests"));
  ASSERT_GT(requests, 40) << "the run makes fewer requests than its saves need";
  const auto run = scratch / "run";
  for (const Case& how : cases_of_shard(GetParam(), requests)) {
    SCOPED_TRACE(how.to_string());
    std::filesystem::remove_all(run);
    std::filesystem::remove(run.string() + ".log");
    const int first = run_process(run, config, how);
    ASSERT_EQ(first, how.kind == Interruption::notice_at_step ? kExitPreempted : -SIGKILL)
        << read_text(run.string() + ".log");
    ASSERT_EQ(run_process(run, config, {}), kExitDone) << read_text(run.string() + ".log");
    const Remains remains = read_remains(run);
    ASSERT_EQ(remains.complaint, "");
    ASSERT_EQ(remains.losses, expected.losses);
    ASSERT_EQ(remains.epochs, expected.epochs);
    ASSERT_EQ(remains.blobs, expected.blobs);
    ASSERT_TRUE(remains.weights == expected.weights) << "the final weights differ";
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, ResumesToTheBit, testing::Range(0, kShards));

// The comparison above must be able to fail: another seed, and a state that was not restored,
// differ.
TEST(ResumesToTheBitItself, SeesADifference) {
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  RunConfig config = tiny_config(scratch / "data");
  ASSERT_EQ(run_process(scratch / "a", config, {}), kExitDone);
  ASSERT_EQ(run_process(scratch / "b", config, {}), kExitDone);
  EXPECT_TRUE(read_remains(scratch / "a") == read_remains(scratch / "b"));
  config.optimizer.momentum = 0.9000001;
  ASSERT_EQ(run_process(scratch / "c", config, {}), kExitDone);
  const Remains other = read_remains(scratch / "c");
  EXPECT_NE(read_remains(scratch / "a").losses, other.losses);
  EXPECT_NE(read_remains(scratch / "a").weights, other.weights);
  EXPECT_NE(read_remains(scratch / "a").blobs, other.blobs);
}

// Many interruptions in a row, each process living for a few steps only.
TEST(ResumesToTheBitItself, ThroughAChainOfKillsAndNotices) {
  ScratchFolder scratch;
  write_tiny_data(scratch / "data", {});
  const RunConfig config = tiny_config(scratch / "data");
  ASSERT_EQ(run_process(scratch / "whole", config, {}), kExitDone);
  const auto run = scratch / "run";
  for (int64_t step = 3; step <= kSteps; step += 3) {
    const bool is_kill = step % 2 == 0;
    run_process(run, config,
                {is_kill ? Interruption::kill_at_step : Interruption::notice_at_step, step});
  }
  ASSERT_EQ(run_process(run, config, {}), kExitDone) << read_text(run.string() + ".log");
  const Remains remains = read_remains(run);
  EXPECT_EQ(remains.complaint, "");
  EXPECT_TRUE(remains == read_remains(scratch / "whole"));
}

}  // namespace
}  // namespace tern
