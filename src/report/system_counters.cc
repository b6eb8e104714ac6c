#include "report/system_counters.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/system_files.h"

namespace tern {
namespace {

// A machine of containers has hundreds of interfaces; the busiest would still be among the first.
constexpr size_t kInterfacesMax = 16;

// The numbers that the text begins with, up to the first thing that is none.
std::vector<int64_t> leading_numbers(std::string_view text, size_t count_max) {
  std::vector<int64_t> numbers;
  while (numbers.size() < count_max) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0) break;
    numbers.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return numbers;
}

// Takes the first line off the text.
std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// The number after "NAME:" at the beginning of a line.
std::optional<int64_t> named_number(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = next_line(text);
    if (!line.starts_with(name) || !line.substr(name.size()).starts_with(':')) continue;
    const std::vector<int64_t> numbers = leading_numbers(line.substr(name.size() + 1), 1);
    if (!numbers.empty()) return numbers.front();
  }
  return std::nullopt;
}

void add_rate(std::vector<Scalar>& use, std::string name, int64_t before, int64_t after,
              double per) {
  if (after < before) return;
  use.push_back({std::move(name), static_cast<double>(after - before) / per});
}

}  // namespace

std::optional<MachineTicks> parse_machine_ticks(std::string_view stat) {
  // "cpu  user nice system idle iowait irq softirq steal ...": what follows is in user already.
  constexpr size_t kFields = 8;
  constexpr size_t kIdle = 3;
  constexpr size_t kIoWait = 4;
  const std::string_view line = next_line(stat);
  if (!line.starts_with("cpu ")) return std::nullopt;
  const std::vector<int64_t> ticks = leading_numbers(line.substr(4), kFields);
  if (ticks.size() <= kIoWait) return std::nullopt;
  const int64_t total = std::accumulate(ticks.begin(), ticks.end(), int64_t{0});
  return MachineTicks{.busy = total - ticks[kIdle] - ticks[kIoWait], .total = total};
}

std::optional<int64_t> parse_process_ticks(std::string_view stat) {
  // "pid (name) state ppid ...": the name may hold anything, a parenthesis too.
  constexpr size_t kUser = 10;  // counted from ppid
  constexpr size_t kSystem = 11;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 4 > stat.size()) return std::nullopt;
  std::string_view rest = stat.substr(name_end + 4);
  std::vector<int64_t> ticks;
  for (size_t field = 0; field <= kSystem; ++field) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (field == kUser || field == kSystem) {
      const std::vector<int64_t> number = leading_numbers(rest.substr(0, end), 1);
      if (number.empty()) return std::nullopt;
      ticks.push_back(number.front());
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return ticks[0] + ticks[1];
}

std::optional<int64_t> parse_resident_pages(std::string_view statm) {
  const std::vector<int64_t> pages = leading_numbers(statm, 2);
  return pages.size() < 2 ? std::nullopt : std::optional(pages[1]);
}

std::optional<int64_t> parse_available_bytes(std::string_view meminfo) {
  const std::optional<int64_t> kib = named_number(meminfo, "MemAvailable");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

std::optional<DiskBytes> parse_disk_bytes(std::string_view io) {
  const std::optional<int64_t> read = named_number(io, "read_bytes");
  const std::optional<int64_t> written = named_number(io, "write_bytes");
  if (!read || !written) return std::nullopt;
  return DiskBytes{*read, *written};
}

std::vector<InterfaceBytes> parse_interface_bytes(std::string_view net_dev) {
  constexpr size_t kSent = 8;  // after eight numbers of what was received
  std::vector<InterfaceBytes> found;
  while (!net_dev.empty() && found.size() < kInterfacesMax) {
    std::string_view line = next_line(net_dev);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;  // the header
    const std::vector<int64_t> numbers = leading_numbers(line.substr(colon + 1), kSent + 1);
    if (numbers.size() <= kSent) continue;
    // One that never moved a byte is not in use.
    if (numbers[0] == 0 && numbers[kSent] == 0) continue;
    found.push_back({printable_line(line.substr(0, colon)), numbers[0], numbers[kSent]});
  }
  return found;
}

SystemCounters read_system_counters(const std::filesystem::path& proc) {
  const auto page_bytes = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  SystemCounters counters;
  counters.machine = parse_machine_ticks(read_system_file(proc / "stat"));
  counters.process_ticks = parse_process_ticks(read_system_file(proc / "self/stat"));
  const auto pages = parse_resident_pages(read_system_file(proc / "self/statm"));
  if (pages) counters.resident_bytes = *pages * page_bytes;
  counters.available_bytes = parse_available_bytes(read_system_file(proc / "meminfo"));
  counters.disk = parse_disk_bytes(read_system_file(proc / "self/io"));
  counters.network = parse_interface_bytes(read_system_file(proc / "net/dev"));
  return counters;
}

std::vector<Scalar> system_use(const SystemCounters& before, const SystemCounters& after,
                               double seconds, double ticks_per_second) {
  std::vector<Scalar> use;
  if (before.process_ticks && after.process_ticks) {
    add_rate(use, "cpu_process_cores", *before.process_ticks, *after.process_ticks,
             seconds * ticks_per_second);
  }
  if (before.machine && after.machine && after.machine->total > before.machine->total) {
    add_rate(use, "cpu_machine_share", before.machine->busy, after.machine->busy,
             static_cast<double>(after.machine->total - before.machine->total));
  }
  if (after.resident_bytes) {
    use.push_back({"memory_process_bytes", static_cast<double>(*after.resident_bytes)});
  }
  if (after.available_bytes) {
    use.push_back({"memory_available_bytes", static_cast<double>(*after.available_bytes)});
  }
  if (before.disk && after.disk) {
    add_rate(use, "disk_read_bytes_per_second", before.disk->read, after.disk->read, seconds);
    add_rate(use, "disk_written_bytes_per_second", before.disk->written, after.disk->written,
             seconds);
  }
  for (const InterfaceBytes& now : after.network) {
    const auto then = std::ranges::find(before.network, now.name, &InterfaceBytes::name);
    if (then == before.network.end()) continue;
    const std::string name = "net/" + now.name;
    add_rate(use, name + "/received_bytes_per_second", then->received, now.received, seconds);
    add_rate(use, name + "/sent_bytes_per_second", then->sent, now.sent, seconds);
  }
  return use;
}

}  // namespace tern
