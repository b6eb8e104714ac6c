#include "program/place_in_group.h"

#include <algorithm>
#include <set>

namespace tern {
namespace {

// Between a supervisor and its ranks; a program that starts tern itself must not inherit it.
constexpr char kRankPrefix[] = "TERN_RANK_";

bool has(const std::vector<std::string>& environment, const std::string& name) {
  return std::ranges::any_of(
      environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

}  // namespace

int64_t PlaceInGroup::local_rank() const {
  return std::count(machines.begin(), machines.begin() + rank, machine());
}

int64_t PlaceInGroup::local_world() const { return std::ranges::count(machines, machine()); }

int64_t PlaceInGroup::group_rank() const {
  const std::set<int64_t> all(machines.begin(), machines.end());
  return std::distance(all.begin(), all.find(machine()));
}

int64_t PlaceInGroup::group_world() const {
  return std::ssize(std::set<int64_t>(machines.begin(), machines.end()));
}

VariableChanges program_variables(const PlaceInGroup& place, const ProgramFolders& folders,
                                  const std::vector<std::string>& environment) {
  const auto text = [](int64_t number) { return std::to_string(number); };
  VariableChanges changes = {
      {"RANK", text(place.rank)},
      {"WORLD_SIZE", text(place.world())},
      {"LOCAL_RANK", text(place.local_rank())},
      {"LOCAL_WORLD_SIZE", text(place.local_world())},
      {"GROUP_RANK", text(place.group_rank())},
      {"GROUP_WORLD_SIZE", text(place.group_world())},
      {"NODE_RANK", text(place.group_rank())},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", text(place.rank)},
      {"ROLE_WORLD_SIZE", text(place.world())},
      {"MASTER_ADDR", place.master_address},
      {"MASTER_PORT", text(place.master_port)},
      {"TORCHELASTIC_RUN_ID", folders.run_id},
      {"TORCHELASTIC_RESTART_COUNT", text(place.attempt - 1)},
      // PyTorch's rank 0 then does not listen itself: somebody does already.
      {"TORCHELASTIC_USE_AGENT_STORE",
       place.has_store ? std::optional<std::string>("True") : std::nullopt},
      {"TERN_ATTEMPT", text(place.attempt)},
      {"TERN_CHECKPOINT_DIR", folders.checkpoints.string()},
      {"TERN_NOTICE_FILE", folders.notice_file.string()},
      {"TERN_RUN", folders.run.empty() ? std::nullopt : std::optional(folders.run)}};
  // As torchrun: several processes with a thread for each core each would stand in each other's
  // way.
  if (place.local_world() > 1) changes["OMP_NUM_THREADS"] = "1";
  // PyTorch's data ports have no secret: they belong on the run's interface, not on all.
  if (!place.interface.empty() && place.group_world() > 1) {
    changes["GLOO_SOCKET_IFNAME"] = changes["NCCL_SOCKET_IFNAME"] = place.interface;
  }
  for (const char* const name : {"OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    if (has(environment, name)) changes.erase(name);
  }
  return changes;
}

std::vector<std::string> changed(const std::vector<std::string>& environment,
                                 const VariableChanges& changes) {
  std::vector<std::string> result;
  for (const std::string& entry : environment) {
    if (entry.starts_with(kRankPrefix)) continue;
    if (!changes.contains(entry.substr(0, entry.find('=')))) result.push_back(entry);
  }
  for (const auto& [name, value] : changes) {
    if (value) result.push_back(name + "=" + *value);
  }
  return result;
}

}  // namespace tern
