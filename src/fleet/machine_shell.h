// Commands on a machine: on this one by its shell, on others by the real OpenSSH client, which
// brings the user's config, keys, agent and host-key checks.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "fleet/child_process.h"
#include "fleet/hosts.h"

namespace tern {

// How ssh is called; the same for all machines of a command.
struct SshSetup {
  std::string program = "ssh";
  std::filesystem::path config;          // after -F; empty: ssh's own
  std::filesystem::path control_folder;  // of shared connections; empty: each command connects
  int connect_timeout_s = 10;
};

// A folder of this user alone for ssh's shared connections: below `runtime` ($XDG_RUNTIME_DIR) or
// in /tmp. Empty if there is no safe one; commands then connect one by one.
std::filesystem::path make_control_folder(const std::filesystem::path& runtime);

struct ShellCommand {
  std::string script;                // for /bin/sh
  Bytes input;                       // its stdin; what is secret goes this way
  std::filesystem::path input_file;  // its stdin instead, if one is named
  size_t output_bytes_max = 1 << 20;
  Milliseconds limit{60'000};  // 0: none
};

// Owned by one command; safe from several threads. run() blocks to the end of the command. The
// first command on a machine connects (0.1 s to seconds), those after it share the connection,
// which closes itself 30 s after the last one.
class MachineShell {
 public:
  MachineShell(FleetMachine machine, SshSetup ssh, Clock& clock);

  const FleetMachine& machine() const { return machine_; }

  // Runs the script. An exit code other than 0 is an answer; an error is a machine that could not
  // be reached, or the command's limit, and names machine, cause and next step.
  Result<ChildAnswer> run(const ShellCommand& command, std::stop_token stop = {}) const;
  // The same for a script that must succeed: its stdout, or what it said was wrong. `doing` is what
  // the caller wants from it: "send the bundle".
  Result<Bytes> must_run(const ShellCommand& command, const std::string& doing,
                         std::stop_token stop = {}) const;

  // The words that give a person a shell there, or run one command in it; for exec().
  std::vector<std::string> interactive_command(const std::string& script) const;
  // Ends the shared connection, if there is one. Nothing of ours is left on either side then.
  void close_connection() const;

 private:
  enum class For { program, person };
  std::vector<std::string> ssh_words(For whom) const;

  const FleetMachine machine_;
  const SshSetup ssh_;
  Clock& clock_;
};

// One word for a POSIX shell, whatever is in the text.
std::string quote_shell(std::string_view text);

// What ssh's own failure (exit code 255) means for this machine.
Error explain_ssh_failure(const FleetMachine& machine, std::string_view said);
// What the exit code and the words of a command mean, which must have been 0.
Error explain_exit(const FleetMachine& machine, const std::string& doing,
                   const ChildAnswer& answer);

// What `ssh -G NAME` says, for HostsPlace.
Result<std::string> ask_ssh_for(const std::string& name, const SshSetup& ssh, Clock& clock);

}  // namespace tern
