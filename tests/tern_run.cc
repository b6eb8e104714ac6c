#include "tern_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace tern {
namespace {

// kWholeRunSteps steps, some seconds: long enough to be interrupted also where this test waits for
// its turn, short enough to repeat.
constexpr char kRunFile[] = R"(
recipe = "tiny"
[data]
format = "idx"
path = "data"
classes = 4
[augment]
pad_crop = 1
flip = true
[model]
name = "small-cnn"
width = 4
dropout = 0.1
[optimizer]
learning_rate = 0.02
[train]
batch = 16
epochs = 300
evaluate_every = 30
threads = 1
[checkpoint]
every = "100ms"
)";

std::vector<nlohmann::json> json_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> records;
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object()) records.push_back(std::move(json));
  }
  return records;
}

}  // namespace

WorkFolder::WorkFolder() {
  write_tiny_data(scratch_ / "data", {});
  write_text(scratch_ / "run.toml", kRunFile);
}

Process::Start WorkFolder::start(const std::vector<std::string>& words) const {
  Process::Start start;
  start.command = {TERN_PROGRAM};
  start.command.insert(start.command.end(), words.begin(), words.end());
  start.folder = scratch_.path();
  return start;
}

Finished WorkFolder::tern(const std::vector<std::string>& words) const {
  return run_to_end(start(words));
}

std::vector<std::string> WorkFolder::train(const std::string& name, std::vector<std::string> more) {
  std::vector<std::string> words = {"train", "run.toml", "--run", name};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int64_t WorkFolder::steps_recorded(const std::string& name) const {
  const auto all = losses(name);
  return all.empty() ? 0 : all.rbegin()->first;
}

nlohmann::json WorkFolder::report(const std::string& name) const {
  const Finished finished = tern({"report", name, "--json"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  auto json = nlohmann::json::parse(finished.out, nullptr, false);
  EXPECT_TRUE(json.is_object()) << finished.out;
  return json.is_object() ? json : nlohmann::json::object();
}

std::vector<nlohmann::json> WorkFolder::ledger(const std::string& name,
                                               const std::string& kind) const {
  std::vector<nlohmann::json> found;
  for (auto& record : json_lines(run(name) / "ledger.jsonl")) {
    if (record.value("kind", "") == kind) found.push_back(std::move(record));
  }
  return found;
}

std::map<int64_t, double> WorkFolder::losses(const std::string& name) const {
  std::map<int64_t, double> losses;
  for (const auto& record : json_lines(run(name) / "metrics.jsonl")) {
    if (record.contains("loss")) losses[record["step"]] = record["loss"];
  }
  return losses;
}

void expect_every_step_once(const WorkFolder& place, const std::string& name, int64_t count) {
  std::vector<int64_t> steps;
  for (const nlohmann::json& json : json_lines(place.run(name) / "metrics.jsonl")) {
    if (json.contains("loss")) steps.push_back(json["step"]);
  }
  std::sort(steps.begin(), steps.end());
  ASSERT_EQ(static_cast<int64_t>(steps.size()), count);
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(steps[static_cast<size_t>(i)], i + 1);
}

void expect_only_lost_steps_twice(const WorkFolder& place, const std::string& name) {
  std::map<int64_t, double> losses;
  int64_t again = 0;
  for (const nlohmann::json& json : json_lines(place.run(name) / "metrics.jsonl")) {
    if (!json.contains("loss")) continue;
    const auto [found, is_new] = losses.emplace(json["step"], json["loss"]);
    if (is_new) continue;
    ++again;
    EXPECT_EQ(found->second, json["loss"].get<double>()) << "step " << found->first;
  }
  EXPECT_LE(again, place.report(name)["steps_lost"].get<int64_t>());
}

}  // namespace tern
