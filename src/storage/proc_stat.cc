#include "storage/proc_stat.h"

#include <fstream>
#include <sstream>

namespace tern {
namespace {

std::string read_first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

// The one line of /proc/PID/stat: "4711 (a name) S 1 ...", state third, parent fourth, start 22nd.
// The name may hold anything, also blanks and brackets, so fields are counted from the last
// bracket.
std::optional<ProcessStat> read_process_stat(const std::string& pid) {
  const std::string line = read_first_line("/proc/" + pid + "/stat");
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(bracket + 1));
  ProcessStat stat;
  fields >> stat.state >> stat.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  fields >> stat.start;
  if (!fields) return std::nullopt;
  return stat;
}

std::string read_boot_id() { return read_first_line("/proc/sys/kernel/random/boot_id"); }

}  // namespace tern
