#include "cli/run_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "report/run_report.h"
#include "storage/disk_store.h"
#include "storage/ledger.h"
#include "storage/prefix_store.h"
#include "storage/sequence_reader.h"
#include "storage/sequence_record.h"
#include "train/fresh.h"
#include "train/run_place.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Holds hundreds of lines: one whole record is certainly among them.
constexpr int64_t kTailBytes = 64 * 1024;
constexpr char kCheckpoints[] = "checkpoints";

// The object that holds the newest records of a log: its last segment, or the file.
Result<ObjectInfo> newest_part(ObjectStore& run, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> segments, run.list(name + ".d/"));
  if (!segments.empty()) return segments.back();
  return run.stat(name);
}

// When the newest record of a records object was written, from its last lines alone: the metrics of
// a long run are large.
std::optional<int64_t> last_record_ms(ObjectStore& run, const std::string& name) {
  const Result<ObjectInfo> info = newest_part(run, name);
  if (!info) return std::nullopt;
  const int64_t start = std::max<int64_t>(0, info->size_bytes - kTailBytes);
  const Result<Bytes> tail = run.get_range(info->name, start, kTailBytes);
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

void set_unread(ListedRun& run, const Error& error) {
  run.status = error.code == Code::permission_denied ? "unreadable" : "damaged";
  run.problem = error.message;
}

// A run without records. They may be lost; the checkpoints, which are worth more, need not be.
void look_for_checkpoints(ObjectStore& store, ListedRun& run) {
  PrefixStore checkpoints(store, kCheckpoints);
  const Result<CheckpointList> list = list_checkpoints(checkpoints);
  if (!list) return set_unread(run, list.error());
  const size_t count = list->checkpoints.size();
  run.status = "damaged";
  if (count > 0) {
    run.problem =
        fmt::format("its records are lost, but {} checkpoint{} there; the same command resumes",
                    count, count == 1 ? " is" : "s are");
  } else if (!list->damaged.empty()) {
    run.problem = fmt::format(
        "its records are lost and its checkpoints damaged; see `tern "
        "checkpoints {}`",
        run.name);
  } else {
    run.status = "empty";
    run.problem = "it ended before its first record; train it again, or remove it with `tern rm`";
  }
}

void read_what_the_report_knows(ObjectStore& store, ListedRun& run) {
  // Named by nothing: the line of the list begins with the name.
  const Result<RunReport> report = read_report(store, run.name);
  if (!report && report.error().code == Code::not_found) return look_for_checkpoints(store, run);
  if (!report) return set_unread(run, report.error());
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

// No permission to see whether it holds a run.
bool is_closed_to_us(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_directory(error)) return false;
  if (!fs::exists(entry.path() / kLedgerObject, error) && error == std::errc::permission_denied) {
    return true;
  }
  fs::directory_iterator(entry.path() / kCheckpoints, error);
  return error == std::errc::permission_denied;
}

}  // namespace

bool is_run_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder / kLedgerObject, error)) return true;
  for (fs::directory_iterator entry(folder / kCheckpoints, error), end; !error && entry != end;
       entry.increment(error)) {
    if (record_number(entry->path().filename().string())) return true;
  }
  return false;
}

Result<std::vector<std::string>> run_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (printable(name) != name) continue;
    if (is_run_folder(entry->path()) || is_closed_to_us(*entry)) names.push_back(name);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return file_error("list", folder, error.value());
  }
  std::ranges::sort(names);
  return names;
}

ListedRun read_listed_run(const fs::path& folder, FileDoor& door) {
  const std::string name = folder.filename().string();
  const int64_t bytes = bytes_in(folder, door);
  const auto store = DiskStore::open(folder, door);
  if (!store) {
    return {.name = name, .status = "damaged", .problem = store.error().message, .bytes = bytes};
  }
  ListedRun run = read_listed_run(**store, name, bytes);
  if (has_aside_mark(run.name, kRemovedMark)) {
    run.status = "half removed";
    run.problem = fmt::format("`tern rm {}` goes on with it", run.name);
  }
  return run;
}

ListedRun read_listed_run(ObjectStore& store, std::string name, int64_t bytes) {
  ListedRun run;
  run.name = std::move(name);
  run.bytes = bytes;
  if (const Status whole = refuse_unfinished(store, run.name);
      !whole && whole.error().code == Code::failed_precondition) {
    run.status = "not whole";
    run.problem = whole.error().message;
    return run;
  }
  read_what_the_report_knows(store, run);
  for (const char* log : {kLedgerObject, kMetricsObject}) {
    run.last_ms = std::max(run.last_ms, last_record_ms(store, log));
  }
  return run;
}

Result<std::vector<ListedRun>> read_bucket_runs(CloudDoor& door, const StoreAddress& address) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, door.open(address));
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store->list(""));
  const auto bytes_of = [](const std::vector<ObjectInfo>& all) {
    int64_t bytes = 0;
    for (const ObjectInfo& object : all) bytes += object.size_bytes;
    return bytes;
  };
  if (holds_run(objects)) {
    const std::string name = address.prefix.substr(address.prefix.rfind('/') + 1);
    return std::vector{read_listed_run(*store, name, bytes_of(objects))};
  }
  std::map<std::string, std::vector<ObjectInfo>> by_folder;
  for (const ObjectInfo& object : objects) {
    const size_t slash = object.name.find('/');
    if (slash == std::string::npos) continue;
    by_folder[object.name.substr(0, slash)].push_back(
        {object.name.substr(slash + 1), object.size_bytes});
  }
  std::vector<ListedRun> runs;
  for (const auto& [name, below] : by_folder) {
    if (!holds_run(below)) continue;
    PrefixStore run(*store, name);
    runs.push_back(read_listed_run(run, name, bytes_of(below)));
  }
  return runs;
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
