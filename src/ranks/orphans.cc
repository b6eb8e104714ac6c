#include "ranks/orphans.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>

#include "core/system_files.h"
#include "storage/proc_stat.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// Not by /proc/self/task/*/children, which may pass over one while another dies.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code error;
  // Where /proc is of another pid namespace its numbers are none that we could signal.
  if (fs::read_symlink("/proc/self", error) != std::to_string(getpid())) return found;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto pid = parse_whole_number(name);
    if (!pid) continue;
    const auto stat = read_process_stat(name);
    if (stat && stat->parent == getpid()) found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

}  // namespace

std::vector<pid_t> adopt_orphans() {
  std::vector<pid_t> before = children();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  return before;
}

bool end_orphans(std::span<const pid_t> kept) {
  bool is_done = true;
  for (const pid_t child : children()) {
    if (std::ranges::find(kept, child) != kept.end()) continue;
    is_done = false;
    // Not yet reaped, so the number is still its own.
    kill(child, SIGKILL);
    waitpid(child, nullptr, WNOHANG);
  }
  return is_done;
}

void reap_orphans(pid_t kept) {
  for (siginfo_t info{}; waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0; info = {}) {
    if (info.si_pid == 0 || info.si_pid == kept) return;
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace tern
