// The files in which machines are listed: TOML of ours, and what `aws ec2 describe-instances` says.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/options.h"
#include "core/system_files.h"
#include "fleet/hosts.h"
#include "fleet/json_fields.h"

namespace tern {

// Found by OptionSet::list() through its argument, so not in the namespace below.
void describe(OptionSet& set, FleetMachine& machine) {
  set.add("name", &machine.name, {.help = "What it is called; not given: its address."});
  set.add("address", &machine.address, {.help = "What ssh is told."});
  set.add("user", &machine.user, {.help = "Who logs in there."});
  set.add("port", &machine.port, {.help = "Of its sshd.", .min = 0, .max = 65535});
  set.add("ssh_options", &machine.ssh_options, {.help = "As after ssh's -o."});
  set.add("ranks", &machine.ranks, {.help = "How many it takes.", .min = 0, .max = 1024});
  set.add("spare", &machine.spare, {.help = "Takes part only in place of another."});
  set.add("interface", &machine.interface, {.help = "Where other machines reach it."});
}

namespace {

using Json = nlohmann::json;

// What is said once for all machines that do not say otherwise.
struct Defaults {
  std::string user;
  int64_t port = 0;
  int64_t ranks = 0;
  std::vector<std::string> ssh_options;
};

OptionSet describe_file(Defaults& defaults, std::vector<FleetMachine>& machines) {
  OptionSet set;
  set.add("user", &defaults.user, {.help = "For all machines that name none."});
  set.add("port", &defaults.port, {.help = "Likewise.", .min = 0, .max = 65535});
  set.add("ranks", &defaults.ranks, {.help = "Likewise.", .min = 0, .max = 1024});
  set.add("ssh_options", &defaults.ssh_options, {.help = "For all machines, after their own."});
  set.list("machine", "A machine.", machines);
  return set;
}

// Where the machine's table begins; 0 if it was not found (an array in one line).
int line_of_machine(std::string_view text, size_t index) {
  int line = 0;
  size_t seen = 0;
  for (size_t begin = 0; begin < text.size();) {
    ++line;
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string words = printable_line(text.substr(begin, end - begin));
    begin = end + 1;
    if (words.starts_with("[[machine]]") && seen++ == index) return line;
  }
  return 0;
}

// What a file holds may be anything, and messages go to terminals.
Error all_of(const std::vector<Problem>& problems) {
  constexpr size_t kLinesMax = 20;
  std::vector<std::string> lines;
  for (const Problem& problem : problems) {
    if (lines.size() == kLinesMax) {
      lines.push_back(fmt::format("and {} more", problems.size() - kLinesMax));
      break;
    }
    lines.push_back(printable_line(problem.to_string()).substr(0, 400));
  }
  return fail(Code::invalid, fmt::format("{}\ndocs/launch.md shows what a hosts file looks like",
                                         fmt::join(lines, "\n")));
}

std::string name_tag(const Json& instance) {
  const auto tags = instance.find("Tags");
  if (tags == instance.end() || !tags->is_array()) return "";
  for (const Json& tag : *tags) {
    if (tag.is_object() && text_in(tag, "Key") == "Name") return text_in(tag, "Value");
  }
  return "";
}

bool is_gone(const Json& instance) {
  const auto state = instance.find("State");
  if (state == instance.end() || !state->is_object()) return false;
  const std::string name = text_in(*state, "Name");
  return name == "terminated" || name == "shutting-down" || name == "stopped" || name == "stopping";
}

struct Instances {
  std::string source;
  std::vector<FleetMachine> running;
  size_t gone = 0;
};

Status add_instance(const Json& json, const std::string& where, Instances& found) {
  if (is_gone(json)) {
    ++found.gone;
    return {};
  }
  FleetMachine machine;
  for (const char* key : {"PublicDnsName", "PublicIpAddress", "PrivateIpAddress"}) {
    if (machine.address.empty()) machine.address = text_in(json, key);
  }
  if (machine.address.empty()) {
    return fail(Code::invalid,
                fmt::format("{}: {} has neither PublicDnsName nor PublicIpAddress nor "
                            "PrivateIpAddress; is the machine still starting? List them again",
                            found.source, where));
  }
  machine.interface = text_in(json, "PrivateIpAddress");
  machine.name = name_tag(json);
  // A Name tag may be any text, and several machines may share one.
  if (!problem_of(machine).empty()) machine.name = text_in(json, "InstanceId");
  if (machine.name.empty()) machine.name = machine.address;
  if (const std::string problem = problem_of(machine); !problem.empty()) {
    return fail(Code::invalid, fmt::format("{}: {}: {}", found.source, where, problem));
  }
  found.running.push_back(std::move(machine));
  return {};
}

// Reservations hold instances; a --query leaves one of the outer layers off.
Status collect(const Json& json, const std::string& where, int depth, Instances& found) {
  constexpr int kDepthMax = 8;
  if (depth > kDepthMax) {
    return fail(Code::invalid, fmt::format("{}: {} is nested too deep", found.source, where));
  }
  if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) {
      RETURN_IF_ERROR(collect(json[i], fmt::format("{}[{}]", where, i), depth + 1, found));
    }
    return {};
  }
  for (const char* key : {"Reservations", "Instances"}) {
    if (!json.is_object() || !json.contains(key)) continue;
    return collect(json[key], where.empty() ? key : fmt::format("{}.{}", where, key), depth + 1,
                   found);
  }
  if (json.is_object() && json.contains("InstanceId")) return add_instance(json, where, found);
  return fail(Code::invalid,
              fmt::format("{}: {} is no list of machines as `aws ec2 describe-instances` prints it",
                          found.source, where.empty() ? "this" : where));
}

// Machines of one Name tag are numbered: workers-0, workers-1.
void tell_apart(std::vector<FleetMachine>& machines) {
  std::map<std::string, int> uses;
  for (const FleetMachine& machine : machines) ++uses[machine.name];
  std::map<std::string, int> given;
  for (FleetMachine& machine : machines) {
    if (uses[machine.name] > 1) machine.name += fmt::format("-{}", given[machine.name]++);
  }
}

}  // namespace

Result<std::vector<FleetMachine>> parse_hosts_toml(std::string_view text,
                                                   const std::string& source) {
  Defaults defaults;
  std::vector<FleetMachine> machines;
  OptionSet set = describe_file(defaults, machines);
  std::vector<Problem> problems = set.load_toml(text, source);
  for (size_t i = 0; i < machines.size() && problems.empty(); ++i) {
    FleetMachine& machine = machines[i];
    const auto complain = [&](const std::string& what) {
      problems.push_back({source, line_of_machine(text, i), 1, what});
    };
    if (machine.address.empty()) {
      complain("this machine has no address; write address = \"NAME\"");
      continue;
    }
    if (machine.name.empty()) machine.name = machine.address;
    if (machine.user.empty()) machine.user = defaults.user;
    if (machine.port == 0) machine.port = defaults.port;
    if (machine.ranks == 0) machine.ranks = defaults.ranks;
    machine.ssh_options.insert(machine.ssh_options.end(), defaults.ssh_options.begin(),
                               defaults.ssh_options.end());
    if (const std::string problem = problem_of(machine); !problem.empty()) complain(problem);
  }
  if (!problems.empty()) return all_of(problems);
  if (machines.empty()) {
    return fail(Code::invalid, fmt::format("{} lists no machine; write [[machine]] on a line of "
                                           "its own for each, and address = \"NAME\" below",
                                           source));
  }
  RETURN_IF_ERROR(refuse_duplicates(machines, source));
  return machines;
}

Result<std::vector<FleetMachine>> parse_instances_json(std::string_view text,
                                                       const std::string& source) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    // A number too large for a double is an exception of another kind than the rest.
    // "...parse_error.101] parse error at line 3, column 5: syntax error..."
    const std::string what = error.what();
    const size_t at = what.find("at line ");
    return fail(
        Code::invalid,
        fmt::format("{}: not valid JSON {}; write it again with `aws ec2 "
                    "describe-instances > {}`",
                    source, printable_line(at == what.npos ? what : what.substr(at)).substr(0, 300),
                    source));
  }
  Instances found{.source = source};
  RETURN_IF_ERROR(collect(json, "", 0, found));
  if (found.running.empty()) {
    return fail(Code::invalid,
                found.gone == 0 ? fmt::format("{} lists no machine", source)
                                : fmt::format("none of the {} machines of {} runs; start them and "
                                              "list them again",
                                              found.gone, source));
  }
  tell_apart(found.running);
  RETURN_IF_ERROR(refuse_duplicates(found.running, source));
  return found.running;
}

}  // namespace tern
