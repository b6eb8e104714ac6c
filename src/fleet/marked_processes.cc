#include "fleet/marked_processes.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

extern "C" {  // glibc 2.36 forgets to say it
#include <sys/pidfd.h>
}

#include "core/system_files.h"
#include "storage/file_door.h"
#include "storage/proc_stat.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEnvironmentBytesMax = 4 << 20;
constexpr size_t kTitleBytesMax = 200;

std::string read_proc(const std::string& path, size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char buffer[4096];
  while (text.size() < bytes_max) {
    file.read(buffer, sizeof buffer);
    text.append(buffer, static_cast<size_t>(file.gcount()));
    if (!file) break;
  }
  text.resize(std::min(text.size(), bytes_max));
  return text;
}

std::string title_of(const std::string& folder) {
  std::string words = read_proc(folder + "/cmdline", kTitleBytesMax);
  std::ranges::replace(words, '\0', ' ');
  return printable_line(words);
}

// "PPid:	4711"
int64_t parent_of(const std::string& folder) {
  std::istringstream lines(read_system_file(folder + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("PPid:")) return parse_whole_number(line.substr(5)).value_or(0);
  }
  return 0;
}

}  // namespace

std::vector<MarkedProcess> find_marked_processes(const std::string& mark) {
  const std::string variable = std::string(kMarkVariable) + "=" + mark + '\0';
  std::map<int64_t, int64_t> parents;
  std::set<int64_t> ours;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto pid = parse_whole_number(entry->path().filename().string());
    if (!pid) continue;
    const std::string folder = entry->path().string();
    parents[*pid] = parent_of(folder);
    const std::string environment =
        '\0' + read_proc(folder + "/environ", kEnvironmentBytesMax) + '\0';
    if (environment.find('\0' + variable) != std::string::npos) ours.insert(*pid);
  }
  // What a marked process started without the mark is its child, or its child's.
  for (bool grows = true; grows;) {
    grows = false;
    for (const auto& [pid, parent] : parents) {
      if (ours.contains(parent) && ours.insert(pid).second) grows = true;
    }
  }
  ours.erase(getpid());
  std::vector<MarkedProcess> found;
  for (const int64_t pid : ours) {
    const auto stat = read_process_stat(std::to_string(pid));
    if (!stat || stat->state == 'Z' || stat->state == 'X') continue;
    found.push_back({pid, stat->start, title_of("/proc/" + std::to_string(pid))});
  }
  return found;
}

bool signal_process(int64_t pid, int64_t start, int number) {
  // The descriptor stands for the process that has the number now, whatever happens to it.
  const FileDescriptor process(pidfd_open(static_cast<pid_t>(pid), 0));
  if (!process.is_open()) return false;
  const auto stat = read_process_stat(std::to_string(pid));
  if (!stat || stat->start != start || stat->state == 'Z' || stat->state == 'X') return false;
  return pidfd_send_signal(process.get(), number, nullptr, 0) == 0;
}

}  // namespace tern
