#include "fleet/status_file.h"

#include "core/system_files.h"
#include "fleet/json_fields.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr size_t kRanksMax = 4096;
constexpr size_t kWordsMax = 200;

std::string line_in(const Json& object, const char* key) {
  return printable_line(text_in(object, key)).substr(0, kWordsMax);
}

Json rank_of(const Json& told) {
  const bool has_rate = told.is_object() && told.contains("rate") && told["rate"].is_number();
  return {{"id", number_in(told, "id", -1)},
          {"pid", number_in(told, "pid", 0)},
          {"pid_start", number_in(told, "pid_start", 0)},
          {"rank", number_in(told, "rank", -1)},
          {"role", line_in(told, "role")},
          {"step", number_in(told, "step", -1)},
          {"rate", has_rate ? told["rate"].get<double>() : 0.0},
          {"waits_for", line_in(told, "waits_for")}};
}

std::string role_of(const Json& told) {
  const std::string state = text_in(told, "state");
  if (state == "resting" || state == "ending") return state;
  const int64_t hub = number_in(told, "hub", -1);
  return hub >= 0 && hub == number_in(told, "machine", -2) ? "hub" : "working";
}

}  // namespace

Json read_status_file(BytesView text) {
  const Json told = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!told.is_object() || text_in(told, "state").empty()) return nullptr;
  Json ranks = Json::array();
  if (told.contains("ranks") && told["ranks"].is_array()) {
    for (const Json& rank : told["ranks"]) {
      if (ranks.size() < kRanksMax) ranks.push_back(rank_of(rank));
    }
  }
  return {{"role", role_of(told)},
          {"hub", number_in(told, "hub", -1)},
          {"term", number_in(told, "term", 0)},
          {"generation", number_in(told, "generation", 0)},
          {"step", number_in(told, "step", -1)},
          {"ranks", std::move(ranks)}};
}

void name_ranks(Json& processes, const Json& told) {
  if (!told.is_object() || !told.contains("ranks")) return;
  for (Json& process : processes) {
    for (const Json& rank : told["ranks"]) {
      if (rank["pid"] != process["pid"] || rank["pid_start"] != process["pid_start"]) continue;
      process["role"] = rank["role"];
      process["id"] = rank["id"];
      process["rank"] = rank["rank"];
      process["step"] = rank["step"];
    }
  }
}

}  // namespace tern
