#include "train/torchrun_door.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <charconv>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "ranks/own_address.h"
#include "ranks/roster.h"
#include "ranks/socket.h"
#include "train/rank_store.h"

namespace tern {
namespace {

constexpr std::chrono::seconds kRendezvousTimeout{60};

Result<int64_t> number_in(const VariableReader& variable, const char* name, int64_t min,
                          int64_t max) {
  const std::string text = variable(name).value_or("");
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return fail(
        Code::invalid,
        fmt::format("WORLD_SIZE is set, as torchrun does, but {} is '{}'; it wants a number "
                    "from {} to {}. Start the ranks with torchrun, or unset WORLD_SIZE and "
                    "use `tern train --ranks N`",
                    name, text, min, max));
  }
  return value;
}

class TorchrunDoor : public RankDoor {
 public:
  TorchrunDoor(TorchrunVariables variables, std::string own_address,
               c10::intrusive_ptr<c10d::Store> store)
      : variables_(std::move(variables)),
        own_address_(std::move(own_address)),
        store_(std::move(store)) {}

  Result<RankGroup> join(const RankJoin& join, std::stop_token) override {
    if (has_joined_) {
      return fail(
          Code::unavailable,
          "a rank was lost, and the group that torchrun made cannot change; torchrun starts "
          "all ranks again where --max-restarts allows it, and the run goes on from its last "
          "checkpoint");
    }
    has_joined_ = true;
    try {
      RETURN_IF_ERROR(compare_settings(join.settings));
    } catch (const std::exception& error) {
      return fail(Code::unavailable, fmt::format("talk to the other ranks at {}:{}: {}",
                                                 variables_.host, variables_.port, error.what()));
    }
    RankGroup group{.generation = 1,
                    .rank = variables_.rank,
                    .world = variables_.world,
                    .interface_address = own_address_};
    for (int64_t rank = 0; rank < group.world; ++rank) {
      group.members.push_back(fmt::format("rank {}", rank));
    }
    return group;
  }

  std::shared_ptr<RendezvousStore> store(const RankGroup&) override {
    return std::make_shared<RendezvousStore>(
        RendezvousStore{c10::make_intrusive<c10d::PrefixStore>("group", store_)});
  }
  std::stop_token generation_over() const override { return {}; }
  bool change_is_wanted() const override { return false; }
  Status leave_note(const std::string& key, const std::string& text) override {
    try {
      store_->set(key, text);
      return {};
    } catch (const std::exception& error) {
      return fail(Code::unavailable, error.what());
    }
  }
  Result<std::optional<std::string>> note(const std::string& key) override {
    try {
      if (!store_->check({key})) return std::optional<std::string>();
      return std::optional(store_->get_to_str(key));
    } catch (const std::exception& error) {
      return fail(Code::unavailable, error.what());
    }
  }
  void tell(RankProgress) override {}
  void leave(std::string_view) override {}

 private:
  // Those of rank 0 count.
  Status compare_settings(const std::string& mine) {
    constexpr char kKey[] = "settings";
    if (variables_.rank == 0) {
      store_->set(kKey, mine);
      return {};
    }
    const std::string theirs = store_->get_to_str(kKey);
    if (theirs == mine) return {};
    return fail(
        Code::failed_precondition,
        fmt::format("rank {} has other settings than rank 0: {}; give all ranks the same run "
                    "file, flags and data",
                    variables_.rank, settings_difference(theirs, mine)));
  }

  const TorchrunVariables variables_;
  const std::string own_address_;
  const c10::intrusive_ptr<c10d::Store> store_;
  bool has_joined_ = false;
};

// Where rank 0 is, or on this machine's side of what stands before it (a cluster's service
// address). PyTorch's own server would listen on every network.
Result<Listening> listen_at(MeetingPlace& place, int64_t port) {
  Result<Listening> listening = listen_on(place.address, port);
  if (listening || place.own == place.address) return listening;
  place.address = place.own;
  return listen_on(place.address, port);
}

}  // namespace

Result<std::optional<TorchrunVariables>> read_torchrun(const VariableReader& variable) {
  if (variable("WORLD_SIZE").value_or("1") == "1") return std::optional<TorchrunVariables>();
  constexpr int64_t kWorldMax = 1 << 20;
  TorchrunVariables read;
  ASSIGN_OR_RETURN(read.world, number_in(variable, "WORLD_SIZE", 1, kWorldMax));
  ASSIGN_OR_RETURN(read.rank, number_in(variable, "RANK", 0, read.world - 1));
  ASSIGN_OR_RETURN(read.port, number_in(variable, "MASTER_PORT", 1, 65'535));
  read.host = variable("MASTER_ADDR").value_or("");
  if (read.host.empty()) {
    return fail(
        Code::invalid,
        "WORLD_SIZE is set, as torchrun does, but MASTER_ADDR is not; set it to the address "
        "of the machine of rank 0");
  }
  read.interface = variable("GLOO_SOCKET_IFNAME").value_or("");
  read.interface.resize(std::min(read.interface.find(','), read.interface.size()));
  read.agent_serves = variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  read.attempt = variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return std::optional(std::move(read));
}

Result<std::unique_ptr<RankDoor>> open_torchrun(const TorchrunVariables& variables) {
  ASSIGN_OR_RETURN(MeetingPlace place, find_meeting_place(variables.host, variables.interface));
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(variables.port);
    options.isServer = variables.rank == 0 && !variables.agent_serves;
    if (options.isServer) {
      ASSIGN_OR_RETURN(Listening listening, listen_at(place, variables.port));
      options.masterListenFd = listening.socket.release();
    }
    options.waitWorkers = false;
    options.timeout = kRendezvousTimeout;
    auto store = c10::make_intrusive<c10d::PrefixStore>(
        "tern" + variables.attempt, c10::make_intrusive<c10d::TCPStore>(place.address, options));
    return std::unique_ptr<RankDoor>(new TorchrunDoor(variables, place.own, std::move(store)));
  } catch (const std::exception& error) {
    return fail(Code::unavailable,
                fmt::format("the rendezvous at {}:{} cannot be reached: {}; check MASTER_ADDR and "
                            "MASTER_PORT, and that rank 0 runs",
                            variables.host, variables.port, error.what()));
  }
}

}  // namespace tern
