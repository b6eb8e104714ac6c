#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/stdio.h"
#include "fleet/child_process.h"
#include "fleet/place_bundle.h"
#include "fleet/setup_commands.h"
#include "fleet/slurm_driver.h"
#include "fleet/slurm_files.h"
#include "fleet/slurm_peers.h"
#include "fleet/slurm_plan.h"
#include "storage/file_door.h"

namespace tern {
namespace {

constexpr Milliseconds kDoctorMax{180'000};

// The machine's own entry of TERN_PEERS; empty if there is none.
std::string own_peer(std::string_view peers, size_t machine) {
  for (; machine > 0 && !peers.empty(); --machine) {
    peers.remove_prefix(std::min(peers.find(' '), peers.size() - 1) + 1);
  }
  return std::string(peers.substr(0, peers.find(' ')));
}

}  // namespace

Result<int> prepare_slurm_machine(const SlurmTaskPlace& place, Clock& clock) {
  const SlurmFolder folder(place.folder);
  ASSIGN_OR_RETURN(const SlurmRequest request, folder.read_request());
  const std::string name = fmt::format("{} ({})", place.machine, place.node);
  if (!request.setup.empty()) {
    // Its record is the run's, and the node's: after a requeue the machine may be another one.
    SetupMachine machine = this_setup_machine();
    if (!place.node.empty()) machine.name = place.node;
    const Result<SetupResult> ready = run_setup_commands(
        request.setup, folder.machine(place.machine), place.home, machine, clock);
    if (!ready) return ready.error().at("machine " + name);
  }
  if (request.command.is_program) return 0;
  ASSIGN_OR_RETURN(
      const ChildAnswer answer,
      run_child({.command = {request.tern, "doctor", "--json", "--quick"}, .limit = kDoctorMax},
                clock, {}));
  RETURN_IF_ERROR(judge_doctor({.name = name}, answer));
  return 0;
}

Result<int> become_slurm_task(const SlurmTaskPlace& place) {
  const SlurmFolder folder(place.folder);
  // Not by way of srun, which may be gone before the command has said its last words.
  const FileDescriptor log(
      open(folder.log(place.machine).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.is_open()) return file_error("write", folder.log(place.machine), errno);
  dup2(log.get(), STDOUT_FILENO);
  dup2(log.get(), STDERR_FILENO);
  ASSIGN_OR_RETURN(const SlurmRequest request, folder.read_request());
  const std::string peer = own_peer(place.peers, place.machine);
  if (!peer.empty() && !is_free_to_listen(peer)) {
    write_stderr(fmt::format("tern: {} is taken here; all machines try others\n", peer));
    std::signal(kSlurmPortTakenSignal, SIG_DFL);
    raise(kSlurmPortTakenSignal);
    return fail(Code::unavailable, fmt::format("{} is taken", peer));  // the signal was blocked
  }
  std::vector<std::string> words =
      command_words(request.command, request.tern, folder.machine(place.machine));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  return fail(Code::not_found,
              fmt::format("{} cannot be started: {}", words.front(), std::strerror(errno)));
}

}  // namespace tern
