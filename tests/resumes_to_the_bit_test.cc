// The test that matters most. A run of 42 steps with augmentation and dropout is interrupted at
// every step, by a notice and by SIGKILL, and at every request that it makes of its store, by
// SIGKILL before it, after it and in the middle of it. Each time a new process resumes and
// finishes, and the losses, the weights and the optimizer's state must be those of the run that
// nobody interrupted, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "forked_run.h"
#include "tiny_data.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr int kShards = 8;  // ctest runs them side by side

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

Fault fault_of(Interruption kind) {
  if (kind == Interruption::kill_before) return Fault::fail_before;
  return kind == Interruption::kill_after ? Fault::fail_after : Fault::tear;
}

// Runs one process to its end, or to its interruption.
int run_case(const std::filesystem::path& run, const RunConfig& config, Case how) {
  const auto arrange = [how](ForkedWorld& world) {
    if (how.kind >= Interruption::kill_before) {
      world.store.inject(how.at, fault_of(how.kind), [] { raise(SIGKILL); });
    }
    world.on_step = [how, &world](const StepEvent& event) {
      if (event.step != how.at) return;
      if (how.kind == Interruption::kill_at_step) raise(SIGKILL);
      if (how.kind == Interruption::notice_at_step) world.board.post({.source = "the test"});
    };
  };
  return run_process(run, config, {.arrange = arrange});
}

// Each case that one shard runs.
std::vector<Case> cases_of_shard(int shard, int64_t requests) {
  std::vector<Case> all;
  for (int64_t step = 1; step <= kTinyRunSteps; ++step) {
    all.push_back({Interruption::notice_at_step, step});
    all.push_back({Interruption::kill_at_step, step});
  }
  for (int64_t request = 1; request <= requests; ++request) {
    all.push_back({Interruption::kill_before, request});
    all.push_back({Interruption::kill_after, request});
    all.push_back({Interruption::kill_torn, request});
  }
  const int64_t every = interrupt_every();
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
  ASSERT_EQ(run_process(whole, config), kExitDone) << read_text(whole.string() + ".log");
  const Remains expected = read_remains(whole);
  ASSERT_EQ(expected.losses.size(), static_cast<size_t>(kTinyRunSteps));
  ASSERT_FALSE(expected.weights.empty());
  ASSERT_EQ(expected.blobs.size(), 1u);

  const auto requests = static_cast<int64_t>(requests_of(whole).size());
  ASSERT_GT(requests, 40) << "the run makes fewer requests than its saves need";
  const auto run = scratch / "run";
  for (const Case& how : cases_of_shard(GetParam(), requests)) {
    SCOPED_TRACE(how.to_string());
    std::filesystem::remove_all(run);
    std::filesystem::remove(run.string() + ".log");
    const int first = run_case(run, config, how);
    ASSERT_EQ(first, how.kind == Interruption::notice_at_step ? kExitPreempted : -SIGKILL)
        << read_text(run.string() + ".log");
    ASSERT_EQ(run_process(run, config), kExitDone) << read_text(run.string() + ".log");
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
  ASSERT_EQ(run_process(scratch / "a", config), kExitDone);
  ASSERT_EQ(run_process(scratch / "b", config), kExitDone);
  EXPECT_TRUE(read_remains(scratch / "a") == read_remains(scratch / "b"));
  config.optimizer.momentum = 0.9000001;
  ASSERT_EQ(run_process(scratch / "c", config), kExitDone);
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
  ASSERT_EQ(run_process(scratch / "whole", config), kExitDone);
  const auto run = scratch / "run";
  for (int64_t step = 3; step <= kTinyRunSteps; step += 3) {
    const bool is_kill = step % 2 == 0;
    run_case(run, config,
             {is_kill ? Interruption::kill_at_step : Interruption::notice_at_step, step});
  }
  ASSERT_EQ(run_process(run, config), kExitDone) << read_text(run.string() + ".log");
  const Remains remains = read_remains(run);
  EXPECT_EQ(remains.complaint, "");
  EXPECT_TRUE(remains == read_remains(scratch / "whole"));
}

}  // namespace
}  // namespace tern
