#include "cli/status_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/fleet_door.h"
#include "fleet/json_fields.h"

namespace tern {
namespace {

using Json = nlohmann::json;

struct Row {
  std::string machine;
  std::string name;
  std::string state;
  std::string role;
  std::string rank;
  std::string process;
  std::string step;
  std::string rate;
  std::string words;  // what it waits for, or says
};

std::string number_or_nothing(const Json& object, const char* key, int64_t least) {
  const int64_t number = number_in(object, key, least - 1);
  return number < least ? "" : std::to_string(number);
}

Row machine_row(const Json& state) {
  const std::string reason = text_in(state, "reason");
  return {.machine = number_or_nothing(state, "machine", 0),
          .name = text_in(state, "name"),
          .state = describe_state(state),
          .role = text_in(state, "role"),
          .rank = "",
          .process = number_or_nothing(state, "pid", 1),
          .step = number_or_nothing(state, "step", 0),
          .rate = "",
          .words = reason.empty() ? text_in(state, "last_line") : reason};
}

Row rank_row(const Row& machine, const Json& rank) {
  Row row = machine;
  const bool has_rate = rank.contains("rate") && rank["rate"].is_number();
  const double rate = has_rate ? rank["rate"].get<double>() : 0.0;
  const std::string role = text_in(rank, "role");
  row.rank = number_or_nothing(rank, "rank", 0);
  row.process = number_or_nothing(rank, "pid", 1);
  row.step = number_or_nothing(rank, "step", 0);
  row.rate = rate > 0 ? fmt::format("{:.0f}/s", rate) : "";
  row.words = text_in(rank, "waits_for");
  // "leader" and "follower" are what its rank says; the rest is news.
  if (row.words.empty() && role != "leader" && role != "follower") row.words = role;
  return row;
}

std::vector<Row> rows_of(const std::vector<Json>& states) {
  std::vector<Row> rows = {
      {"", "machine", "state", "role", "rank", "process", "step", "rate", "waits for"}};
  for (const Json& state : states) {
    const Row machine = machine_row(state);
    const bool tells_of_ranks = text_in(state, "state") == "running" && state.contains("ranks") &&
                                state["ranks"].is_array() && !state["ranks"].empty();
    if (!tells_of_ranks) {
      rows.push_back(machine);
      continue;
    }
    for (const Json& rank : state["ranks"]) rows.push_back(rank_row(machine, rank));
  }
  return rows;
}

}  // namespace

std::vector<std::string> status_lines(const std::vector<Json>& states) {
  const std::vector<Row> rows = rows_of(states);
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line = fmt::format("{:>3}  {:<{}}  {:<13}  {:<7}  {:>4}  {:>7}  {:>7}  {:>8}  {}",
                                   row.machine, row.name, width, row.state, row.role, row.rank,
                                   row.process, row.step, row.rate, row.words);
    while (line.ends_with(' ')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tern
