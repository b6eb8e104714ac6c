// What a machine's agent is told and what it leaves in its folder. docs/launch.md has the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// What a machine is to run; sent to it by stdin, never on a command line.
struct AgentRequest {
  std::string id;                    // of the launched run
  int64_t machine = 0;               // its number in the run
  int64_t ranks = 0;                 // on this machine; 0: as the run file says, or one
  std::vector<std::string> command;  // a program's words, or what follows `tern train RUN_FILE`
  bool is_program = false;           // `command` is run as ranks, by `tern program`...
  std::vector<std::string> program_flags;  // ...with these
  std::string run_file;                    // its name and text; no name: any program
  std::string run_file_text;
  std::string folder;  // to run in; empty: the home folder
  std::map<std::string, std::string> environment;
  std::string secret;    // the run's, in its own file on the machine
  int stop_signal = 15;  // what `tern stop` sends the command

  // Marks the processes and names the folder.
  std::string mark() const { return id + "-" + std::to_string(machine); }
};

nlohmann::json to_json(const AgentRequest& request);
// `invalid` for what is no request, such as an id that is not 32 hexadecimal digits.
Result<AgentRequest> parse_agent_request(BytesView text);

// What is run on the machine: by this tern, with its files in this folder.
std::vector<std::string> command_words(const AgentRequest& request,
                                       const std::filesystem::path& tern,
                                       const std::filesystem::path& folder);

// A process that is there now, or was.
struct ProcessName {
  int64_t pid = 0;
  int64_t start = 0;  // clock ticks since the boot
  std::string boot_id;
};
ProcessName name_of_process(int64_t pid);
bool is_alive(const ProcessName& process);

struct AgentRecord {
  ProcessName agent;
  ProcessName command;
  int64_t started_unix_ms = 0;
};
struct EndRecord {
  int exit_code = 0;   // minus the signal, if one ended it
  std::string notice;  // "preempt", "stop": what it had been told; empty: nothing
  int64_t unix_ms = 0;
};

// The folder of one agent and the files in it.
class AgentFolder {
 public:
  // Below `agents`, the folder of all agents of this user.
  AgentFolder(const std::filesystem::path& agents, const std::string& mark)
      : path_(agents / mark) {}
  explicit AgentFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log() const { return path_ / "log.txt"; }
  std::filesystem::path notice() const { return path_ / "notice.json"; }
  std::filesystem::path secret() const { return path_ / "secret"; }
  std::filesystem::path request() const { return path_ / "request.json"; }
  // What the command tells of itself, in TERN_STATUS_FILE.
  std::filesystem::path status() const { return path_ / "status.json"; }

  bool exists() const;
  Status write_record(const AgentRecord& record) const;
  Status write_end(const EndRecord& end) const;
  // Removes what it, its command and notices left, but for the log.
  void forget_last_life() const;
  // Nothing if it was not written yet, or is damaged.
  std::optional<AgentRecord> record() const;
  std::optional<EndRecord> end() const;

 private:
  std::filesystem::path path_;
};

}  // namespace tern
