#include "fleet/slurm_files.h"

#include <nlohmann/json.hpp>

#include "fleet/private_file.h"
#include "fleet/slurm_text.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr size_t kRequestBytesMax = 8 << 20;

}  // namespace

Status SlurmFolder::lay_out(const SlurmRequest& request, const std::string& secret) const {
  RETURN_IF_ERROR(make_private_folder(path_));
  AgentRequest command = request.command;
  command.secret.clear();
  const Json json = {{"command", to_json(command)},
                     {"machines", request.machines},
                     {"setup", request.setup},
                     {"tern", request.tern}};
  RETURN_IF_ERROR(write_private_file(
      path_ / "request.json", json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"));
  RETURN_IF_ERROR(write_private_file(this->secret(), secret));
  RETURN_IF_ERROR(write_private_file(script(), slurm_script(request.tern, path_)));
  for (size_t i = 0; i < static_cast<size_t>(request.machines); ++i) {
    RETURN_IF_ERROR(make_private_folder(machine(i)));
    RETURN_IF_ERROR(write_private_file(log(i), ""));
    if (command.run_file.empty()) continue;
    RETURN_IF_ERROR(write_private_file(machine(i) / command.run_file, command.run_file_text));
  }
  return {};
}

Result<SlurmRequest> SlurmFolder::read_request() const {
  ASSIGN_OR_RETURN(const Bytes text, read_private_file(path_ / "request.json", kRequestBytesMax));
  SlurmRequest request;
  Bytes command;
  try {
    const Json json = Json::parse(text);
    command = json.at("command").dump();
    request.machines = json.at("machines");
    request.setup = json.at("setup").get<std::vector<std::string>>();
    request.tern = json.at("tern");
  } catch (const Json::exception& error) {
    return fail(Code::corrupt, path_.string() + "/request.json is damaged (" + error.what() +
                                   "); `tern down` and launch the run again");
  }
  ASSIGN_OR_RETURN(request.command, parse_agent_request(command));
  return request;
}

void SlurmFolder::remove() const {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  std::filesystem::remove(path_.parent_path(), error);  // only if it was the last
}

}  // namespace tern
