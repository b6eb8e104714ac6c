#include "train/rank_book.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tern {
namespace {

// How long a rank must be behind before the log says so, and by how much of the time.
constexpr double kWindowSeconds = 5;
constexpr int64_t kWindowSteps = 10;
constexpr double kWorthAWord = 0.20;

double wait_of(const RankWord& word) {
  return std::max(0.0, word.step_seconds - word.busy_seconds);
}

RankLoad load_of(const RankWord& word) {
  RankLoad load{.steps = 1,
                .busy_seconds = word.busy_seconds,
                .wait_seconds = wait_of(word),
                .data_seconds = word.data_seconds,
                .predicted_bytes = word.predicted_bytes};
  if (word.sent_bytes >= 0) {
    load.sent_bytes = word.sent_bytes;
    load.received_bytes = word.received_bytes;
    load.measured_steps = 1;
  }
  return load;
}

GroupTime time_of(const std::vector<RankWord>& words, int64_t samples) {
  const auto world = static_cast<double>(words.size());
  GroupTime time{.steps = 1,
                 .communication_seconds = wait_of(words[0]),
                 .leader_wait_seconds = wait_of(words[0]),
                 .samples_each = static_cast<double>(samples) / world};
  for (const RankWord& word : words) {
    time.step_seconds += word.step_seconds / world;
    time.wait_seconds += wait_of(word) / world;
    time.data_seconds += word.data_seconds / world;
    time.communication_seconds = std::min(time.communication_seconds, wait_of(word));
  }
  return time;
}

std::vector<RankLoad> values(const std::map<std::string, RankLoad>& loads) {
  std::vector<RankLoad> list;
  for (const auto& [process, load] : loads) list.push_back(load);
  return list;
}

}  // namespace

std::string process_of(const std::string& member) {
  const size_t begin = member.find(", rank ");
  const size_t end = member.find(" (pid ");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return member;
  return member.substr(0, begin) + member.substr(end);
}

void RankBook::note(const std::vector<RankWord>& words, const std::vector<std::string>& members,
                    int64_t samples) {
  const auto is_first = [](const RankWord& word) { return word.step_seconds <= 0; };
  if (words.empty() || words.size() > members.size()) return;
  if (std::ranges::any_of(words, is_first)) return;
  if (words.size() == 1) {
    group_.alone_samples += static_cast<double>(samples);
    group_.alone_seconds += words[0].busy_seconds - words[0].data_seconds;
    return;
  }
  const GroupTime time = time_of(words, samples);
  group_ += time;
  recent_seconds_ += time.step_seconds;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    for (auto* loads : {&loads_, &recent_}) {
      RankLoad& load = (*loads)[process_of(members[rank])];
      load.name = members[rank];
      load += load_of(words[rank]);
    }
  }
}

std::optional<SlowestRank> RankBook::take_straggler() {
  if (recent_seconds_ < kWindowSeconds) return std::nullopt;
  const std::vector<RankLoad> loads = values(recent_);
  const double seconds = recent_seconds_;
  recent_.clear();
  recent_seconds_ = 0;
  const std::optional<SlowestRank> slowest = find_slowest(loads);
  const bool is_long =
      std::ranges::any_of(loads, [](const RankLoad& load) { return load.steps >= kWindowSteps; });
  if (!slowest || !is_long || slowest->seconds < kWorthAWord * seconds) return std::nullopt;
  if (slowest->name == told_) return std::nullopt;
  told_ = slowest->name;
  return slowest;
}

nlohmann::json RankBook::fields() const {
  nlohmann::json members = nlohmann::json::array();
  RankLoad all;
  for (const auto& [process, load] : loads_) {
    all += load;
    nlohmann::json member = {{"name", load.name},
                             {"steps", load.steps},
                             {"busy_seconds", load.busy_seconds},
                             {"wait_seconds", load.wait_seconds},
                             {"data_seconds", load.data_seconds},
                             {"predicted_bytes", load.predicted_bytes}};
    if (load.measured_steps > 0) {
      member["sent_bytes"] = load.sent_bytes;
      member["received_bytes"] = load.received_bytes;
      member["measured_steps"] = load.measured_steps;
    }
    members.push_back(std::move(member));
  }
  nlohmann::json fields = {{"members", std::move(members)},
                           {"group",
                            {{"steps", group_.steps},
                             {"step_seconds", group_.step_seconds},
                             {"wait_seconds", group_.wait_seconds},
                             {"data_seconds", group_.data_seconds},
                             {"communication_seconds", group_.communication_seconds},
                             {"leader_wait_seconds", group_.leader_wait_seconds},
                             {"samples_each", group_.samples_each},
                             {"alone_samples", group_.alone_samples},
                             {"alone_seconds", group_.alone_seconds}}}};
  if (all.steps > 0) {
    fields["bytes_per_step"] = std::llround(all.predicted_bytes / static_cast<double>(all.steps));
  }
  return fields;
}

std::string communication_json(const RankWord& mine, const std::vector<RankWord>& words) {
  const auto us = [](double seconds) { return std::llround(seconds * 1e6); };
  std::vector<long long> busy;
  std::vector<long long> waits;
  for (const RankWord& word : words) {
    busy.push_back(us(word.busy_seconds));
    waits.push_back(us(wait_of(word)));
  }
  std::string text = fmt::format(R"({{"predicted":{:.0f},)", mine.predicted_bytes);
  if (mine.sent_bytes >= 0) {
    text +=
        fmt::format(R"("sent":{:.0f},"received":{:.0f},)", mine.sent_bytes, mine.received_bytes);
  }
  return text + fmt::format(R"("busy_us":[{}],"wait_us":[{}]}})", fmt::join(busy, ","),
                            fmt::join(waits, ","));
}

}  // namespace tern
