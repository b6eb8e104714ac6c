#include "storage/holder.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "core/token.h"
#include "storage/proc_stat.h"

namespace tern {
namespace {

std::string read_link(const char* path) {
  std::array<char, 256> target;
  const ssize_t length = readlink(path, target.data(), target.size());
  return length <= 0 ? std::string() : std::string(target.data(), static_cast<size_t>(length));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace

std::string Holder::to_string() const {
  return fmt::format("pid {} on machine {}", pid, host.empty() ? "unknown" : host);
}

Result<Holder> this_process() {
  Holder me;
  ASSIGN_OR_RETURN(me.token, random_token());
  me.host = host_name();
  me.boot_id = read_boot_id();
  me.pid_namespace = read_link("/proc/self/ns/pid");
  me.pid = getpid();
  if (const std::optional<ProcessStat> stat = read_process_stat("self")) {
    me.pid_start = stat->start;
  } else {
    me.boot_id.clear();  // without a start time a reused pid would look like us
  }
  return me;
}

Liveness liveness(const Holder& holder, const Holder& me) {
  if (!holder.token.empty() && holder.token == me.token) return Liveness::alive;
  // Host names are no proof: clouds and containers reuse them.
  if (holder.boot_id.empty() || holder.boot_id != me.boot_id) return Liveness::unknown;
  if (holder.pid_namespace.empty() || holder.pid_namespace != me.pid_namespace) {
    return Liveness::unknown;
  }
  if (holder.pid <= 0) return Liveness::unknown;
  const std::optional<ProcessStat> stat = read_process_stat(std::to_string(holder.pid));
  if (stat) {
    const bool gone = stat->state == 'Z' || stat->state == 'X' || stat->state == 'x';
    return gone || stat->start != holder.pid_start ? Liveness::dead : Liveness::alive;
  }
  // A /proc mounted with hidepid does not show other users' processes; signal 0 tells them from
  // dead ones.
  if (kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH) return Liveness::dead;
  return Liveness::unknown;
}

}  // namespace tern
