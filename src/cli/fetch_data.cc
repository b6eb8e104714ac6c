#include "cli/fetch_data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/import_request.h"
#include "core/clock.h"
#include "core/download.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "dataset/index.h"
#include "import/representation.h"
#include "preempt/notice.h"
#include "preempt/signal_watcher.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

enum class Found { data, nothing, unfinished };

// Of an import (import/import_folder.h): import.json is there until it is finished, and .download
// from before that.
Found look_at(const fs::path& path) {
  // In a bucket it is looked for when it is opened: nothing can be imported there.
  if (path.string().find("://") != std::string::npos) return Found::data;
  std::error_code error;
  if (!fs::exists(path, error)) return Found::nothing;
  if (!fs::is_directory(path, error)) return Found::data;
  if (fs::is_empty(path, error)) return Found::nothing;
  const bool is_planned = fs::exists(path / "import.json", error);
  if (fs::exists(path / kIndexFile, error) && !is_planned) return Found::data;
  return is_planned || fs::exists(path / ".download", error) ? Found::unfinished : Found::data;
}

int64_t bytes_that_arrived(const DataOptions& data) {
  const fs::path file = fs::path(data.path) / ".download" / file_name_of(data.source);
  std::error_code error;
  for (const fs::path& path : {file, fs::path(file.string() + ".part")}) {
    if (const uintmax_t size = fs::file_size(path, error); !error) {
      return static_cast<int64_t>(size);
    }
  }
  return 0;
}

std::string describe(const FetchSetup& setup, Found found) {
  const DataOptions& data = setup.data;
  // Only to be told: a server that does not answer now is an error of the fetch, with its retries.
  const int64_t bytes = data.source_bytes > 0
                            ? data.source_bytes
                            : download_bytes(data.source, setup.certificates).value_or(0);
  std::error_code error;
  std::string text = fmt::format(
      "{}. It will be fetched and imported:\n"
      "  from  {} ({}{})\n"
      "  to    {}\n",
      found == Found::nothing ? fmt::format("The data, {}, is not here", data.path)
                              : fmt::format("The data, {}, is not here whole", data.path),
      data.source, bytes > 0 ? format_bytes(bytes) : "the server does not say how much",
      data.source_sha256.empty() ? "" : ", checked by its sha256",
      fs::absolute(data.path, error).lexically_normal().string());
  if (const int64_t here = bytes_that_arrived(data); here > 0) {
    text += fmt::format("  {} of it have arrived before.\n", format_bytes(here));
  }
  return text;
}

std::string read_answer() {
  std::string answer;
  int c = std::getchar();
  if (c == EOF) return "no";
  for (; c != EOF && c != '\n'; c = std::getchar()) answer += static_cast<char>(c);
  return answer;
}

}  // namespace

Ask ask_on_terminal() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) return nullptr;
  return [](const std::string& question) {
    write_stderr(question + " [Y/n] ");
    const std::string answer = read_answer();
    return answer.empty() || answer == "y" || answer == "Y" || answer == "yes";
  };
}

Result<bool> agree_to_fetch(const FetchSetup& setup, const Ask& ask) {
  const DataOptions& data = setup.data;
  const Found found = look_at(data.path);
  if (found == Found::data) return false;
  if (data.source.empty()) {
    if (found == Found::unfinished || data.source_note.empty()) return false;
    return fail(Code::not_found,
                fmt::format("the data, {}, is not here. {}", data.path, data.source_note));
  }
  RETURN_IF_ERROR(refuse_other_addresses(data.source).at("data.source"));
  if (!is_web_address(data.source)) {
    return fail(Code::invalid,
                fmt::format("data.source is '{}', which is no https:// address; for a file of this "
                            "machine use `tern data import {} {}`",
                            data.source, data.source, data.path));
  }
  write_stderr(describe(setup, found));
  if (!ask || ask("Fetch it?")) return true;
  return fail(
      Code::cancelled,
      "nothing was fetched; if you have the data, name its folder with --set data.path=DIR");
}

Result<int> fetch_data(const FetchSetup& setup) {
  const DataOptions& data = setup.data;
  SystemClock clock;
  NoticeBoard board;
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalWatcher> signals,
                   SignalWatcher::start(board, clock, [] { _exit(kExitInterruptedTwice); }));
  Log log(clock, Level::info);
  const Result<ImportResult> imported = import_as_requested({.source = data.source,
                                                             .destination = data.path,
                                                             .pack = Representation{},
                                                             .sha256 = data.source_sha256,
                                                             .certificates = setup.certificates,
                                                             .tern_version = setup.tern_version},
                                                            log, clock, board.stop_token());
  const std::optional<Notice> notice = board.notice();
  if (notice && (imported || imported.error().code == Code::cancelled)) {
    write_stderr(fmt::format(
        "tern: stopped by {}; what has arrived is kept in {}, the same command goes on\n",
        notice->source, data.path));
    return notice->kind == NoticeKind::preempt ? kExitPreempted : kExitStopped;
  }
  if (!imported) return imported.error().at("fetch the data");
  log.info("data", "fetched and imported",
           {{"path", data.path},
            {"train", format_count(imported->train_samples)},
            {"test", format_count(imported->test_samples)}});
  return kExitDone;
}

}  // namespace tern
