#include "fleet/agent_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "fleet/private_file.h"
#include "storage/proc_stat.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kRecordBytesMax = 1 << 16;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json process_json(const ProcessName& process) {
  return {{"pid", process.pid}, {"start", process.start}, {"boot_id", process.boot_id}};
}

ProcessName parse_process(const Json& json) {
  return {.pid = json.at("pid"), .start = json.at("start"), .boot_id = json.at("boot_id")};
}

// A file of our own that does not parse was damaged, and tells nothing.
template <typename T, typename Parse>
std::optional<T> read_record(const fs::path& file, Parse parse) {
  const Result<Bytes> text = read_private_file(file, kRecordBytesMax);
  if (!text) return std::nullopt;
  try {
    return parse(Json::parse(*text));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool is_id(const std::string& text) {
  return text.size() == 32 && std::ranges::all_of(text, [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) != 0;
         });
}

}  // namespace

Json to_json(const AgentRequest& request) {
  return {{"id", request.id},
          {"machine", request.machine},
          {"ranks", request.ranks},
          {"command", request.command},
          {"is_program", request.is_program},
          {"program_flags", request.program_flags},
          {"run_file", request.run_file},
          {"run_file_text", request.run_file_text},
          {"folder", request.folder},
          {"environment", request.environment},
          {"secret", request.secret},
          {"stop_signal", request.stop_signal}};
}

Result<AgentRequest> parse_agent_request(BytesView text) {
  AgentRequest request;
  try {
    const Json json = Json::parse(text);
    request.id = json.at("id");
    request.machine = json.at("machine");
    request.ranks = json.value("ranks", request.ranks);
    request.command = json.value("command", request.command);
    request.is_program = json.value("is_program", request.is_program);
    request.program_flags = json.value("program_flags", request.program_flags);
    request.run_file = json.value("run_file", "");
    request.run_file_text = json.value("run_file_text", "");
    request.folder = json.value("folder", "");
    request.environment = json.value("environment", request.environment);
    request.secret = json.value("secret", "");
    request.stop_signal = json.value("stop_signal", request.stop_signal);
  } catch (const Json::exception& error) {
    return fail(Code::invalid, fmt::format("the agent's request cannot be read ({}); are the two "
                                           "machines' versions of tern the same?",
                                           error.what()));
  }
  const bool is_plain_name =
      request.run_file.find('/') == std::string::npos && !request.run_file.starts_with('.');
  if (!is_id(request.id) || request.machine < 0 || request.machine > 100'000 || !is_plain_name ||
      request.ranks < 0 || request.ranks > 1024 || request.stop_signal < 1 ||
      request.stop_signal > 64) {
    return fail(Code::invalid, "the agent's request is not one of tern's");
  }
  return request;
}

std::vector<std::string> command_words(const AgentRequest& request, const fs::path& tern,
                                       const fs::path& folder) {
  std::vector<std::string> words = {tern.string()};
  if (!request.run_file.empty()) {
    words.insert(words.end(), {"train", (folder / request.run_file).string()});
    words.insert(words.end(), request.command.begin(), request.command.end());
    if (request.ranks > 0) words.insert(words.end(), {"--ranks", std::to_string(request.ranks)});
    return words;
  }
  if (!request.is_program) return request.command;
  words.insert(words.end(), {"program", "--work", (folder / "work").string(), "--ranks",
                             std::to_string(std::max<int64_t>(1, request.ranks))});
  words.insert(words.end(), request.program_flags.begin(), request.program_flags.end());
  words.emplace_back("--");
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

ProcessName name_of_process(int64_t pid) {
  const auto stat = read_process_stat(std::to_string(pid));
  return {.pid = pid, .start = stat ? stat->start : 0, .boot_id = read_boot_id()};
}

bool is_alive(const ProcessName& process) {
  if (process.pid <= 0 || process.boot_id != read_boot_id()) return false;
  const auto stat = read_process_stat(std::to_string(process.pid));
  return stat && stat->start == process.start && stat->state != 'Z' && stat->state != 'X';
}

bool AgentFolder::exists() const {
  std::error_code error;
  return fs::is_directory(path_, error);
}

Status AgentFolder::write_record(const AgentRecord& record) const {
  return write_private_file(path_ / "agent.json",
                            dump({{"agent", process_json(record.agent)},
                                  {"command", process_json(record.command)},
                                  {"started_unix_ms", record.started_unix_ms}}));
}

Status AgentFolder::write_end(const EndRecord& end) const {
  return write_private_file(
      path_ / "ended.json",
      dump({{"exit_code", end.exit_code}, {"notice", end.notice}, {"unix_ms", end.unix_ms}}));
}

void AgentFolder::forget_last_life() const {
  std::error_code ignored;
  for (const fs::path& file : {path_ / "agent.json", path_ / "ended.json", notice(), status()}) {
    fs::remove(file, ignored);
  }
}

std::optional<AgentRecord> AgentFolder::record() const {
  return read_record<AgentRecord>(path_ / "agent.json", [](const Json& json) {
    return AgentRecord{.agent = parse_process(json.at("agent")),
                       .command = parse_process(json.at("command")),
                       .started_unix_ms = json.at("started_unix_ms")};
  });
}

std::optional<EndRecord> AgentFolder::end() const {
  return read_record<EndRecord>(path_ / "ended.json", [](const Json& json) {
    return EndRecord{.exit_code = json.at("exit_code"),
                     .notice = json.at("notice"),
                     .unix_ms = json.at("unix_ms")};
  });
}

}  // namespace tern
