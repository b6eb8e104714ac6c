#include "fleet/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "core/system_files.h"
#include "fleet/ssh_config.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// A thousand machines of `aws ec2 describe-instances` take about 10 MB.
constexpr size_t kHostsFileBytesMax = 16 << 20;
constexpr size_t kNameBytesMax = 255;

bool consists_of_word_characters(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= kNameBytesMax && text.front() != '-' &&
         std::ranges::all_of(text, [more](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  more.find(c) != std::string_view::npos;
         });
}

std::string lower(std::string_view text) {
  std::string low(text);
  std::ranges::transform(low, low.begin(), [](unsigned char c) { return std::tolower(c); });
  return low;
}

std::string problem_of_option(const std::string& option) {
  const size_t end = option.find_first_of("= ");
  if (end == 0 || end == std::string::npos || end + 1 == option.size() ||
      !consists_of_word_characters(option.substr(0, end), "")) {
    return fmt::format("the ssh option '{}' is not of the form Key=Value", printable_line(option));
  }
  if (std::ranges::any_of(option, [](char c) { return static_cast<unsigned char>(c) < ' '; })) {
    return "an ssh option holds a control character";
  }
  const std::string key = lower(option.substr(0, end));
  const std::string value = lower(option.substr(option.find_first_not_of("= ", end)));
  if (key == "stricthostkeychecking" && (value == "no" || value == "off")) {
    return "host keys are always checked; leave StrictHostKeyChecking out, and learn the key once "
           "by `ssh-keyscan ADDRESS >> ~/.ssh/known_hosts`";
  }
  return "";
}

Result<std::string> read_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kHostsFileBytesMax + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad()) {
    return fail(Code::permission_denied,
                fmt::format("cannot read {}; check its permissions", file.string()));
  }
  if (text.size() <= kHostsFileBytesMax) return text;
  return fail(Code::invalid, fmt::format("{} has more than {} bytes, too many for a list of "
                                         "machines",
                                         file.string(), kHostsFileBytesMax));
}

// `ssh -G` prints "key value" lines, keys in lower case.
std::map<std::string, std::string> parse_ssh_answer(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.find(' ');
    if (blank != std::string::npos) values.emplace(line.substr(0, blank), line.substr(blank + 1));
  }
  return values;
}

// One [USER@]NAME, in which NAME may be a pattern.
Result<std::vector<std::string>> names_matching(const std::string& name, const HostsPlace& place) {
  if (name.find_first_of("*?") == std::string::npos) return std::vector<std::string>{name};
  ASSIGN_OR_RETURN(const std::vector<std::string> known,
                   ssh_host_names(place.ssh_config, place.home));
  std::vector<std::string> matching;
  for (const std::string& host : known) {
    if (matches_host_pattern(host, name)) matching.push_back(host);
  }
  if (!matching.empty()) return matching;
  return fail(Code::not_found,
              fmt::format("no Host line of {} matches {} ({} names were looked at); add one for "
                          "each machine, or give --hosts a file",
                          place.ssh_config.string(), name, known.size()));
}

Result<std::vector<FleetMachine>> machines_by_name(const std::string& list,
                                                   const HostsPlace& place) {
  std::vector<FleetMachine> machines;
  std::map<std::tuple<std::string, std::string, std::string>, std::string> seen;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t at = part.find('@');
    const std::string user = at == std::string::npos ? "" : part.substr(0, at);
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     names_matching(part.substr(at == std::string::npos ? 0 : at + 1), place));
    for (const std::string& name : names) {
      FleetMachine machine{.name = name, .address = name, .user = user};
      if (const std::string problem = problem_of(machine); !problem.empty()) {
        return fail(Code::invalid, fmt::format("--hosts {}: {}", printable_line(list), problem));
      }
      ASSIGN_OR_RETURN(const std::string answer, place.ask_ssh(name));
      const auto values = parse_ssh_answer(answer);
      const auto value = [&values](const char* key) {
        const auto found = values.find(key);
        return found == values.end() ? std::string() : found->second;
      };
      const auto [same, is_new] = seen.emplace(
          std::tuple(value("hostname"), value("port"), user.empty() ? value("user") : user), name);
      if (!is_new) {
        return fail(Code::invalid,
                    fmt::format("--hosts {}: {} and {} are one machine ({}); name "
                                "it once",
                                printable_line(list), same->second, name, value("hostname")));
      }
      machines.push_back(std::move(machine));
    }
  }
  if (machines.empty()) {
    return fail(Code::invalid,
                "--hosts names no machine; give it a file, or names with commas "
                "between them");
  }
  RETURN_IF_ERROR(refuse_duplicates(machines, "--hosts " + list));
  return machines;
}

}  // namespace

std::string problem_of(const FleetMachine& machine) {
  if (!consists_of_word_characters(machine.name, "._-")) {
    return fmt::format("'{}' is no name for a machine; letters, digits, '.', '_' and '-' make one",
                       printable_line(machine.name));
  }
  if (!machine.address.empty() && !consists_of_word_characters(machine.address, "._-:%")) {
    return fmt::format(
        "'{}' is no address; write a host name, an IP address or a Host of ssh's "
        "config",
        printable_line(machine.address));
  }
  if (!machine.user.empty() && !consists_of_word_characters(machine.user, "._-")) {
    return fmt::format("'{}' is no user's name", printable_line(machine.user));
  }
  if (!machine.interface.empty() && !consists_of_word_characters(machine.interface, "._-:%")) {
    return fmt::format("'{}' is no address of an interface", printable_line(machine.interface));
  }
  for (const std::string& option : machine.ssh_options) {
    if (std::string problem = problem_of_option(option); !problem.empty()) return problem;
  }
  return "";
}

Status refuse_duplicates(const std::vector<FleetMachine>& machines, const std::string& source) {
  std::set<std::string> names;
  std::map<std::tuple<std::string, std::string, int64_t>, std::string> places;
  for (const FleetMachine& machine : machines) {
    if (!names.insert(machine.name).second) {
      return fail(Code::invalid, fmt::format("{}: two machines are called {}; give each a name of "
                                             "its own",
                                             source, machine.name));
    }
    if (machine.is_local()) continue;
    const auto [same, is_new] = places.emplace(
        std::tuple(lower(machine.address), machine.user, machine.port), machine.name);
    if (is_new) continue;
    return fail(Code::invalid, fmt::format("{}: {} and {} are one machine ({}); list it once",
                                           source, same->second, machine.name, machine.address));
  }
  return {};
}

Result<std::vector<FleetMachine>> read_hosts(const std::string& hosts, const HostsPlace& place) {
  std::error_code error;
  const bool names_a_file =
      hosts.find('/') != std::string::npos || hosts.ends_with(".toml") || hosts.ends_with(".json");
  const fs::file_status status = fs::status(hosts, error);
  if (!names_a_file && !fs::is_regular_file(status)) return machines_by_name(hosts, place);
  if (!fs::exists(status)) {
    return fail(Code::not_found,
                fmt::format("there is no file {}; `tern launch --help` shows what a hosts file "
                            "looks like",
                            hosts));
  }
  if (!fs::is_regular_file(status)) {
    return fail(Code::invalid, fmt::format("{} is no plain file", hosts));
  }
  ASSIGN_OR_RETURN(const std::string text, read_text(hosts));
  return hosts.ends_with(".json") ? parse_instances_json(text, hosts)
                                  : parse_hosts_toml(text, hosts);
}

}  // namespace tern
