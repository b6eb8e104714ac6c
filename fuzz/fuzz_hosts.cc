// Lists of machines that people and other programs wrote: TOML, instances.json, ssh's config; and
// the records by which launched runs are found.
#include "fleet/agent_files.h"
#include "fleet/hosts.h"
#include "fleet/launched_run.h"
#include "fleet/ssh_config.h"
#include "fuzz/fuzz.h"

namespace tern {
namespace {

// As check_told(), but a list of problems has lines.
void check_lines(const Error& error) {
  TERN_CHECK(!error.message.empty() && error.message.size() < 20'000);
  for (const char c : error.message) TERN_CHECK((c >= ' ' && c <= '~') || c == '\n');
}

void check_machines(const Result<std::vector<FleetMachine>>& machines) {
  if (!machines) return check_lines(machines.error());
  TERN_CHECK(!machines->empty());
  for (const FleetMachine& machine : *machines) {
    TERN_CHECK(problem_of(machine).empty() && !machine.is_local());
    // Nothing that ssh could take for an option.
    TERN_CHECK(!machine.address.starts_with('-') && !machine.user.starts_with('-'));
  }
}

void try_hosts(BytesView bytes) {
  switch (take_choice(bytes) % 5) {
    case 0: return check_machines(parse_hosts_toml(bytes, "hosts.toml"));
    case 1: return check_machines(parse_instances_json(bytes, "instances.json"));
    case 2: {
      const auto config = parse_ssh_config(bytes, "config");
      if (!config) return check_lines(config.error());
      for (const std::string& host : config->hosts) {
        TERN_CHECK(host.find_first_of("*?!\n") == std::string::npos);
        TERN_CHECK(matches_host_pattern(host, "*"));
      }
      return;
    }
    case 3: {
      const auto run = parse_launched_run(bytes);
      if (run) TERN_CHECK(parse_launched_run(format_launched_run(*run)).has_value());
      return;
    }
    default: {
      const auto request = parse_agent_request(bytes);
      if (request) TERN_CHECK(request->mark().find('/') == std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_hosts)
