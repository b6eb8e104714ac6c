#include "ranks/status_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace tern {
namespace {

constexpr std::chrono::seconds kWriteEvery{1};

}  // namespace

std::string to_json(const SupervisorStatus& status) {
  nlohmann::ordered_json json{{"machine", status.machine},
                              {"hub", status.hub},
                              {"term", status.term},
                              {"state", status.state},
                              {"generation", status.generation},
                              {"step", status.step}};
  json["ranks"] = nlohmann::ordered_json::array();
  for (const SupervisorStatus::Rank& rank : status.ranks) {
    json["ranks"].push_back({{"id", rank.id},
                             {"pid", rank.pid},
                             {"pid_start", rank.pid_start},
                             {"rank", rank.rank},
                             {"role", rank.role},
                             {"step", rank.step},
                             {"rate", rank.rate},
                             {"waits_for", rank.waits_for}});
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void StatusFile::tell(const SupervisorStatus& status, Nanoseconds now, bool must) {
  if (file_.empty()) return;
  if (!must && written_at_ && now - *written_at_ < kWriteEvery) return;
  std::string text = to_json(status);
  if (text == written_) return;
  const std::filesystem::path part = file_.string() + ".part";
  std::ofstream(part, std::ios::binary | std::ios::trunc) << text;
  std::error_code error;
  std::filesystem::rename(part, file_, error);
  if (error) return;
  written_ = std::move(text);
  written_at_ = now;
}

}  // namespace tern
