// A store that goes wrong once, at each request that a run makes of it in turn, in each way that a
// store can: the run goes on or ends with a clear error, the next process continues from the newest
// checkpoint that is whole, and the bits are those of a run on a good store.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "forked_run.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "storage/ledger.h"
#include "storage/prefix_store.h"
#include "storage/sequence_reader.h"
#include "tiny_data.h"
#include "train/exit_codes.h"
#include "train/train_state.h"

namespace tern {
namespace {

struct Weather {
  Fault fault = Fault::fail_before;
  StoreShape shape = StoreShape::folder;
  int64_t keep = 2;
  int64_t stride = 1;  // each how many-th request; a bucket has a request for every line
};

std::string fault_name(Fault fault) {
  static const char* const kNames[] = {"FailBefore", "FailAfter", "Tear",
                                       "Delay",      "Duplicate", "Lose"};
  return kNames[static_cast<int>(fault)];
}

// 18 steps, a checkpoint every third and one at the end of each epoch of 6.
RunConfig short_config(const std::filesystem::path& data, int64_t keep) {
  RunConfig config = tiny_config(data);
  config.train.epochs = 3;
  config.checkpoint = {.every = std::chrono::seconds(3), .keep = keep};
  return config;
}

// What a run folder says, read past any fault.
class RunFolder {
 public:
  explicit RunFolder(const std::filesystem::path& run) : disk_(*DiskStore::open(run, door_)) {}

  std::vector<nlohmann::json> ledger(const std::string& kind) const {
    int64_t skipped = 0;
    std::vector<nlohmann::json> found;
    for (auto& record : read_json_records(*disk_, kLedgerObject, skipped).value_or({})) {
      if (record.value("kind", "") == kind) found.push_back(record);
    }
    return found;
  }
  // The steps of the checkpoints that the run believes it has published, in order.
  std::vector<int64_t> steps_acknowledged() const {
    std::vector<int64_t> steps;
    for (const auto& record : ledger("checkpoint")) steps.push_back(record["step"]);
    return steps;
  }
  // The step of the newest checkpoint that is whole; 0 if there is none.
  int64_t newest_step() const {
    PrefixStore checkpoints(*disk_, "checkpoints");
    const auto newest = newest_checkpoint(checkpoints);
    EXPECT_TRUE(newest.has_value());
    if (!newest.has_value() || !newest->found) return 0;
    return parse_state(newest->found->record.state)->state.step;
  }
  // Where the newest process began.
  int64_t resumed_at() const {
    const auto resumes = ledger("resume");
    return resumes.empty() ? 0 : resumes.back()["step"].get<int64_t>();
  }

 private:
  mutable RealFileDoor door_;
  std::unique_ptr<DiskStore> disk_;
};

class BadWeather : public testing::TestWithParam<Weather> {
 protected:
  BadWeather() {
    write_tiny_data(scratch_ / "data", {});
    config_ = short_config(scratch_ / "data", GetParam().keep);
  }

  std::string log() const { return read_text(run_.string() + ".log"); }

  // One process whose request `number` goes wrong; its exit code.
  int run_in_bad_weather(int64_t number) const {
    const auto arrange = [number](ForkedWorld& world) {
      if (GetParam().fault == Fault::delay) {
        world.store.inject_delay(number, world.clock, std::chrono::minutes(10));
      } else {
        world.store.inject(number, GetParam().fault);
      }
    };
    return run_process(run_, config_, {.shape = GetParam().shape, .arrange = arrange});
  }

  // Ends cleanly or with the fault as its reason, never by surprise; and what it believes saved is
  // there, but for the one save of which the store lied.
  void expect_a_clear_end(int exit_code) const {
    EXPECT_TRUE(exit_code == kExitDone || exit_code == kExitUnavailable) << exit_code << log();
    if (exit_code == kExitUnavailable) {
      EXPECT_NE(log().find("injected fault"), std::string::npos);
    }
    std::vector<int64_t> saved = RunFolder(run_).steps_acknowledged();
    if (GetParam().fault == Fault::lose && !saved.empty()) saved.pop_back();
    EXPECT_GE(RunFolder(run_).newest_step(), saved.empty() ? 0 : saved.back()) << log();
  }

  // A good day again: the same command goes on from the newest whole checkpoint.
  void expect_the_next_process_finishes() const {
    const int64_t newest = RunFolder(run_).newest_step();
    ASSERT_EQ(run_process(run_, config_, {.shape = GetParam().shape}), kExitDone) << log();
    EXPECT_EQ(RunFolder(run_).resumed_at(), newest) << log();
  }

  // Every line that was recorded is right; only lines that the store lost may be missing.
  void expect_the_same_bits(const Remains& expected) const {
    const Remains remains = read_remains(run_);
    EXPECT_EQ(remains.complaint, "");
    for (const auto& [step, line] : remains.losses) EXPECT_EQ(line, expected.losses.at(step));
    if (GetParam().shape == StoreShape::folder) {
      EXPECT_EQ(remains.losses.size(), expected.losses.size());
      EXPECT_EQ(remains.epochs, expected.epochs);
    }
    EXPECT_EQ(remains.blobs, expected.blobs);
    EXPECT_TRUE(remains.weights == expected.weights) << "the final weights differ";
  }

  ScratchFolder scratch_;
  RunConfig config_;
  std::filesystem::path run_ = scratch_ / "run";
};

TEST_P(BadWeather, AtEachRequestInTurnCostsNoBit) {
  const auto whole = scratch_ / "whole";
  ASSERT_EQ(run_process(whole, config_, {.shape = GetParam().shape}), kExitDone);
  const Remains expected = read_remains(whole);
  ASSERT_EQ(expected.losses.size(), 18u);
  const std::vector<std::string> requests = requests_of(whole);
  const auto stride = static_cast<size_t>(interrupt_every() * GetParam().stride);
  // Different faults begin at different requests, so that together they see all.
  for (size_t i = static_cast<size_t>(GetParam().fault) % stride; i < requests.size();
       i += stride) {
    SCOPED_TRACE(fmt::format("request {}: {}", i + 1, requests[i]));
    std::filesystem::remove_all(run_);
    std::filesystem::remove(run_.string() + ".log");
    const int exit_code = run_in_bad_weather(static_cast<int64_t>(i) + 1);
    expect_a_clear_end(exit_code);
    // Of a store that lies even "done" is only believed: the same command again makes it true.
    if (exit_code != kExitDone || GetParam().fault == Fault::lose) {
      expect_the_next_process_finishes();
    }
    expect_the_same_bits(expected);
    if (HasFailure()) return;  // one told well is better than a hundred
  }
}

std::vector<Weather> all_weather() {
  std::vector<Weather> all;
  for (const Fault fault : {Fault::fail_before, Fault::fail_after, Fault::tear, Fault::delay,
                            Fault::duplicate, Fault::lose}) {
    all.push_back({.fault = fault});
    all.push_back({.fault = fault, .shape = StoreShape::bucket, .stride = 4});
  }
  // With one checkpoint kept, a save that was lost must not cost the one before it.
  all.push_back({.fault = Fault::lose, .keep = 1});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, BadWeather, testing::ValuesIn(all_weather()), [](const auto& suite) {
  const Weather& weather = suite.param;
  return fmt::format("{}{}{}", fault_name(weather.fault),
                     weather.shape == StoreShape::bucket ? "InABucket" : "",
                     weather.keep == 1 ? "WithOneKept" : "");
});

}  // namespace
}  // namespace tern
