#include "fleet/launched_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "core/options.h"
#include "core/system_files.h"
#include "fleet/private_file.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr size_t kRecordBytesMax = 16 << 20;

Json process_json(const ProcessName& process) {
  return {{"pid", process.pid}, {"start", process.start}, {"boot_id", process.boot_id}};
}

ProcessName parse_process(const Json& json) {
  return {.pid = json.at("pid"), .start = json.at("start"), .boot_id = json.at("boot_id")};
}

Json machine_json(const LaunchedMachine& launched) {
  const FleetMachine& machine = launched.machine;
  return {{"name", machine.name},
          {"address", machine.address},
          {"user", machine.user},
          {"port", machine.port},
          {"ssh_options", machine.ssh_options},
          {"ranks", machine.ranks},
          {"spare", machine.spare},
          {"interface", machine.interface},
          {"tern", launched.tern},
          {"peer", launched.peer},
          {"agent", process_json(launched.agent.agent)},
          {"command", process_json(launched.agent.command)},
          {"started_unix_ms", launched.agent.started_unix_ms}};
}

LaunchedMachine parse_machine(const Json& json) {
  LaunchedMachine launched;
  launched.machine = {.name = json.at("name"),
                      .address = json.at("address"),
                      .user = json.at("user"),
                      .port = json.at("port"),
                      .ssh_options = json.at("ssh_options"),
                      .ranks = json.at("ranks"),
                      .spare = json.at("spare"),
                      .interface = json.at("interface")};
  launched.tern = json.at("tern");
  launched.peer = json.value("peer", "");
  launched.agent = {.agent = parse_process(json.at("agent")),
                    .command = parse_process(json.at("command")),
                    .started_unix_ms = json.at("started_unix_ms")};
  return launched;
}

}  // namespace

size_t LaunchedRun::working() const {
  return static_cast<size_t>(std::ranges::count_if(
      machines, [](const LaunchedMachine& each) { return !each.machine.spare; }));
}

Result<size_t> LaunchedRun::find_machine(const std::string& text) const {
  for (size_t i = 0; i < machines.size(); ++i) {
    if (machines[i].machine.name == text) return i;
  }
  const auto number = parse_whole_number(text);
  if (number && *number >= 0 && static_cast<size_t>(*number) < machines.size()) {
    return static_cast<size_t>(*number);
  }
  return fail(Code::invalid, fmt::format("{} has no machine '{}'; its machines are 0 to {}: `tern "
                                         "status {}` lists them",
                                         name, printable_line(text), machines.size() - 1, name));
}

Bytes format_launched_run(const LaunchedRun& run) {
  Json machines = Json::array();
  for (const LaunchedMachine& machine : run.machines) machines.push_back(machine_json(machine));
  Json json = {{"version", kVersion}, {"name", run.name},
               {"id", run.id},        {"created_unix_ms", run.created_unix_ms},
               {"run", run.run},      {"command", run.command},
               {"machines", machines}};
  if (!run.setup.empty()) json["setup"] = run.setup;
  if (run.slurm_job != 0) json["slurm_job"] = run.slurm_job;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<LaunchedRun> parse_launched_run(BytesView text) {
  LaunchedRun run;
  std::string problem;
  try {
    const Json json = Json::parse(text);
    const int version = json.at("version");
    if (version != kVersion) {
      return fail(Code::failed_precondition,
                  fmt::format("it was written by another tern (version {} of the record, ours is "
                              "{}); use that one",
                              version, kVersion));
    }
    run.name = json.at("name");
    run.id = json.at("id");
    run.created_unix_ms = json.at("created_unix_ms");
    run.run = json.at("run");
    run.slurm_job = json.value("slurm_job", int64_t{0});
    run.command = json.at("command").get<std::vector<std::string>>();
    run.setup = json.value("setup", std::vector<std::string>());
    for (const Json& machine : json.at("machines")) run.machines.push_back(parse_machine(machine));
  } catch (const Json::exception& error) {
    problem = error.what();
  }
  for (const LaunchedMachine& launched : run.machines) {
    if (problem.empty()) problem = problem_of(launched.machine);
  }
  if (problem.empty() && run.machines.empty()) problem = "it lists no machine";
  if (problem.empty()) return run;
  return fail(Code::corrupt, fmt::format("it is damaged ({})", problem));
}

Status LaunchedRuns::check_name(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= 64 && name.front() != '.' && name.front() != '-' &&
      std::ranges::all_of(name, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
      });
  if (good) return {};
  return fail(Code::invalid, fmt::format("'{}' is no name for a launched run; letters, digits, "
                                         "'.', '_' and '-' make one, at most 64",
                                         printable_line(name)));
}

Status LaunchedRuns::create(const LaunchedRun& run, const std::string& secret) const {
  RETURN_IF_ERROR(check_name(run.name));
  RETURN_IF_ERROR(make_private_folder(folder_));
  const Status created = create_private_file(record(run.name), format_launched_run(run));
  if (!created && created.error().code == Code::already_exists) {
    return fail(Code::already_exists,
                fmt::format("a run called {0} is launched already; `tern status {0}` shows it, "
                            "`tern down {0}` ends it, or choose another --name",
                            run.name));
  }
  RETURN_IF_ERROR(created);
  return write_private_file(secret_file(run.name), secret);
}

Status LaunchedRuns::update(const LaunchedRun& run) const {
  return write_private_file(record(run.name), format_launched_run(run));
}

Result<LaunchedRun> LaunchedRuns::open(const std::string& name) const {
  RETURN_IF_ERROR(check_name(name));
  const Result<Bytes> text = read_private_file(record(name), kRecordBytesMax);
  if (!text && text.error().code == Code::not_found) {
    const auto near = nearest_name(name, names());
    return fail(Code::not_found,
                fmt::format("no run called {} was launched from here{}; `tern status` lists those "
                            "that were",
                            name, near ? fmt::format(" (did you mean {}?)", *near) : ""));
  }
  if (!text) return text.error();
  Result<LaunchedRun> run = parse_launched_run(*text);
  if (!run) return run.error().at(record(name).string());
  return run;
}

Result<std::string> LaunchedRuns::secret(const std::string& name) const {
  return read_private_file(secret_file(name), 4096);
}

Status LaunchedRuns::remove(const std::string& name) const {
  std::error_code error;
  fs::remove(secret_file(name), error);
  if (!error) fs::remove(record(name), error);
  if (error) return file_error("remove", record(name), error.value());
  return {};
}

std::vector<std::string> LaunchedRuns::names() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator file(folder_, error), end; !error && file != end;
       file.increment(error)) {
    if (file->path().extension() == ".json") names.push_back(file->path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace tern
