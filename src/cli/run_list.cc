#include "cli/run_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "report/run_report.h"
#include "storage/disk_store.h"
#include "storage/ledger.h"
#include "storage/prefix_store.h"
#include "storage/sequence_reader.h"
#include "storage/sequence_record.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Holds hundreds of lines: one whole record is certainly among them.
constexpr int64_t kTailBytes = 64 * 1024;

// When the newest record of a records object was written, from its last lines alone: the metrics of
// a long run are large.
std::optional<int64_t> last_record_ms(ObjectStore& run, const std::string& name) {
  const Result<ObjectInfo> info = run.stat(name);
  if (!info) return std::nullopt;
  const int64_t start = std::max<int64_t>(0, info->size_bytes - kTailBytes);
  const Result<Bytes> tail = run.get_range(name, start, kTailBytes);
  if (!tail) return std::nullopt;
  std::string_view rest = *tail;
  while (!rest.empty()) {
    const size_t newline = rest.rfind('\n');
    const std::string_view line = newline == rest.npos ? rest : rest.substr(newline + 1);
    const json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_object() && record.contains("ms") && record["ms"].is_number_integer()) {
      return record["ms"].get<int64_t>();
    }
    rest = rest.substr(0, newline == rest.npos ? 0 : newline);
  }
  return std::nullopt;
}

int64_t bytes_in(const fs::path& folder, FileDoor& door) {
  int64_t bytes = 0;
  if (const auto files = door.list(folder)) {
    for (const FileInfo& file : *files) bytes += file.size_bytes;
  }
  return bytes;
}

bool is_half_removed(const std::string& name) {
  const size_t mark = name.rfind(kRemovedMark);
  if (mark == name.npos) return false;
  const std::string_view number = std::string_view(name).substr(mark + kRemovedMark.size());
  return number.size() > 1 && number[0] == '.' &&
         number.find_first_not_of("0123456789", 1) == number.npos;
}

void read_what_the_report_knows(ObjectStore& store, ListedRun& run) {
  // Named by nothing: the line of the list begins with the name.
  const Result<RunReport> report = read_report(store, run.name);
  if (!report) {
    PrefixStore checkpoints(store, "checkpoints");
    const auto saved = list_checkpoints(checkpoints);
    const bool has_saved = saved && !saved->checkpoints.empty();
    const bool is_empty = report.error().code == Code::not_found && !has_saved;
    if (report.error().code == Code::not_found && has_saved) {
      run.status = "damaged";
      run.problem = fmt::format(
          "its records are lost, but {} checkpoints are there; the same "
          "command resumes",
          saved->checkpoints.size());
      return;
    }
    run.status = is_empty ? "empty" : "damaged";
    run.problem = is_empty ? "it ended before its first record; train it again, or remove it with "
                             "`tern rm`"
                           : report.error().message;
    return;
  }
  run.status = status_name(report->status);
  run.step = report->step;
  run.total_steps = report->total_steps;
  if (report->last_evaluation) run.top1 = report->last_evaluation->top1;
}

// A name is the user's; on a terminal it must not do more than be read.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

std::string format_ago(const ListedRun& run, int64_t now_ms) {
  if (!run.last_ms) return "-";
  // A calendar that was set back makes it lie in the future.
  return format_seconds(static_cast<double>(std::max<int64_t>(0, now_ms - *run.last_ms)) / 1000) +
         " ago";
}

}  // namespace

bool is_run_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder / kLedgerObject, error)) return true;
  for (fs::directory_iterator entry(folder / "checkpoints", error), end; !error && entry != end;
       entry.increment(error)) {
    if (record_number(entry->path().filename().string())) return true;
  }
  return false;
}

std::vector<std::string> run_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (printable(name) == name && is_run_folder(entry->path())) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

ListedRun read_listed_run(const fs::path& folder, FileDoor& door) {
  ListedRun run;
  run.name = folder.filename().string();
  run.bytes = bytes_in(folder, door);
  const auto store = DiskStore::open(folder, door);
  if (!store) {
    run.status = "damaged";
    run.problem = store.error().message;
    return run;
  }
  read_what_the_report_knows(**store, run);
  for (const char* name : {kLedgerObject, kMetricsObject}) {
    run.last_ms = std::max(run.last_ms, last_record_ms(**store, name));
  }
  if (is_half_removed(run.name)) {
    run.status = "half removed";
    run.problem = fmt::format("`tern rm {}` goes on with it", run.name);
  }
  return run;
}

RunConfig recorded_options(ObjectStore& run) {
  RunConfig config;
  if (const Result<Bytes> text = run.get(kRunFileObject)) {
    describe_run(config).load_toml(*text, kRunFileObject);
  }
  return config;
}

std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         std::string_view alignment) {
  std::vector<size_t> widths(alignment.size(), 0);
  for (const auto& row : rows) {
    const size_t counted = row.size() < alignment.size() ? row.size() - 1 : row.size();
    for (size_t i = 0; i < counted; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      const bool is_last = i + 1 == row.size();
      if (is_last && (alignment[i] == 'l' || row.size() < alignment.size())) {
        line += row[i];
      } else if (alignment[i] == 'l') {
        line += fmt::format("{:<{}}", row[i], widths[i]);
      } else {
        line += fmt::format("{:>{}}", row[i], widths[i]);
      }
    }
    text += line + "\n";
  }
  return text;
}

std::string format_run_list(const std::vector<ListedRun>& runs, int64_t now_ms) {
  std::vector<std::vector<std::string>> rows = {
      {"run", "status", "step", "top-1", "size", "last activity"}};
  for (const ListedRun& run : runs) {
    if (!run.problem.empty()) {
      rows.push_back({printable(run.name), run.status, printable(run.problem)});
      continue;
    }
    rows.push_back({printable(run.name), run.status,
                    fmt::format("{} of {}", run.step, run.total_steps),
                    run.top1 ? fmt::format("{:.2f} %", 100 * *run.top1) : "-",
                    format_bytes(run.bytes), format_ago(run, now_ms)});
  }
  return format_table(rows, "llrrrl");
}

json run_list_json(const std::vector<ListedRun>& runs) {
  json list = json::array();
  for (const ListedRun& run : runs) {
    list.push_back({{"run", run.name},
                    {"status", run.status},
                    {"problem", run.problem.empty() ? json(nullptr) : json(run.problem)},
                    {"step", run.step},
                    {"total_steps", run.total_steps},
                    {"top1", run.top1 ? json(*run.top1) : json(nullptr)},
                    {"bytes", run.bytes},
                    {"last_ms", run.last_ms ? json(*run.last_ms) : json(nullptr)}});
  }
  return list;
}

}  // namespace tern
