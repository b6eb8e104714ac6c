// The machines that a run may be launched on, and where people have written them down.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tern {

struct FleetMachine {
  std::string name;  // what people call it; no two of a list have the same
  std::string
      address;       // what ssh is told: a Host of its config, a name, an IP. Empty: this machine
  std::string user;  // empty: as ssh's config says
  int64_t port = 0;  // 0: as ssh's config says
  std::vector<std::string> ssh_options;  // "IdentityFile=~/.ssh/spot", as after ssh's -o
  int64_t ranks = 0;                     // 0: not said
  bool spare = false;                    // takes part only in place of a machine that was lost
  std::string interface;  // of the machine, at which others reach it; empty: as sshd was reached

  bool is_local() const { return address.empty(); }
  bool operator==(const FleetMachine&) const = default;
};

// Where machines are looked up that a pattern names.
struct HostsPlace {
  std::filesystem::path ssh_config;  // ~/.ssh/config, or another
  std::filesystem::path home;        // what ~ and a relative Include mean
  // What `ssh -G NAME` prints, by which ssh says what it would do.
  std::function<Result<std::string>(const std::string& name)> ask_ssh;
};

// `hosts` is a file (TOML of ours, or the instances.json of `aws ec2 describe-instances`), or a
// list of names with commas between them, each [USER@]NAME, where NAME may hold * and ? and then
// stands for the Host lines of ssh's config that it matches. docs/launch.md has the formats. Every
// problem of a file is told at once, by its line; a machine that is listed twice is refused.
Result<std::vector<FleetMachine>> read_hosts(const std::string& hosts, const HostsPlace& place);

// The two formats; `source` is the file's name, for messages.
Result<std::vector<FleetMachine>> parse_hosts_toml(std::string_view text,
                                                   const std::string& source);
Result<std::vector<FleetMachine>> parse_instances_json(std::string_view text,
                                                       const std::string& source);

// What is wrong with one machine, whoever wrote it down; empty if nothing. Names and addresses
// become words of command lines, so only what cannot be taken for anything else is allowed.
std::string problem_of(const FleetMachine& machine);

// `invalid` if two machines have one name, or are one machine.
Status refuse_duplicates(const std::vector<FleetMachine>& machines, const std::string& source);

}  // namespace tern
