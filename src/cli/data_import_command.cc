#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

#include "cli/data_commands.h"
#include "cli/import_request.h"
#include "cloud/open_store.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "preempt/notice.h"
#include "preempt/signal_watcher.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern data import: make a data set of what you have.

  tern data import SRC DST               index SRC where it lies; copies nothing
  tern data import SRC DST --pack orig   copy it into shards of about 64 MB

SRC is a folder, an archive (tar, zip; gzip, xz, zstd, bzip2) or an https://
address. Understood are ImageNet-2012 as distributed, Tiny-ImageNet, a folder
per class (perhaps below train/ and val/ or test/), CIFAR-10 and CIFAR-100
(binary), IDX, and tar shards of .cls with .jpg or .png (WebDataset).

  --pack WHAT       orig   the bytes as they are
                    base   progressive JPEG made baseline: the same pixels, read
                           faster
                    short:256:q90   resized so that the short side is 256, JPEG
                           of quality 90; smaller images are not enlarged
                    raw    decoded pixels: large, and no work to read
  --test-share X    where SRC has no test split: this share of the samples, 0.1
                    for a tenth, chosen by their names
  --threads N       all cores if not given
  --sha256 HEX      what the file SRC, or the fetched one, must hash to

Stopped or killed at any instant, the same command goes on where it was. Damaged
images are left out and listed by `tern data ls DST`.

Then: tern train FILE --set data.path=DST, or tern data show DST 0 to look at
it.
)";

struct Request {
  ImportRequest import;
  std::string pack;
  bool help = false;
};

void add_flags(CLI::App& app, Request& request) {
  app.set_help_flag();
  app.add_flag("-h,--help", request.help);
  app.add_option("SRC", request.import.source);
  app.add_option("DST", request.import.destination);
  app.add_option("--pack", request.pack);
  app.add_option("--test-share", request.import.test_share);
  app.add_option("--threads", request.import.threads);
  app.add_option("--sha256", request.import.sha256);
}

// file:///path is /path.
Result<std::string> plain_path(const std::string& text) {
  if (!text.starts_with("file://")) return text;
  ASSIGN_OR_RETURN(StoreAddress address, parse_store_address(text));
  return std::move(address.prefix);
}

// All that can be known before anything is touched.
Status check(const CLI::App& app, Request& request) {
  ImportRequest& import = request.import;
  if (import.source.empty()) {
    return fail(Code::invalid,
                "import what? `tern data import SRC DST`; see `tern data import "
                "--help`");
  }
  if (import.destination.empty()) {
    return fail(Code::invalid, fmt::format("import to where? `tern data import {} DST`, with a "
                                           "folder that does not exist yet",
                                           import.source));
  }
  ASSIGN_OR_RETURN(import.source, plain_path(import.source));
  ASSIGN_OR_RETURN(import.destination, plain_path(import.destination.string()));
  if (is_cloud_address(import.destination.string())) {
    return fail(Code::invalid, fmt::format("a data set is made in a folder and brought to a bucket "
                                           "then: `tern data import {} DIR --pack orig`, `tern "
                                           "store cp --recursive DIR {}`",
                                           import.source, import.destination.string()));
  }
  if (app.count("--pack") > 0) {
    ASSIGN_OR_RETURN(import.pack, parse_representation(request.pack));
  }
  if (!(import.test_share >= 0 && import.test_share < 1)) {
    return fail(Code::invalid,
                "--test-share is a share of the samples: 0.1 for a tenth, and "
                "less than 1");
  }
  constexpr int64_t kThreadsMax = 1024;
  if (app.count("--threads") > 0 && (import.threads < 1 || import.threads > kThreadsMax)) {
    return fail(Code::invalid, fmt::format("--threads is 1 to {}; left out, it is the number of "
                                           "cores",
                                           kThreadsMax));
  }
  const bool is_hex =
      std::ranges::all_of(import.sha256, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (app.count("--sha256") > 0 && (import.sha256.size() != 64 || !is_hex)) {
    return fail(Code::invalid, "--sha256 is 64 hex digits, as `sha256sum FILE` prints them");
  }
  return {};
}

std::string format_result(const ImportResult& result, const std::string& destination,
                          double seconds) {
  const int64_t samples = result.train_samples + result.test_samples;
  const int64_t here = samples - result.taken_over;
  std::string text =
      fmt::format("{}: {} samples for training, {} for testing, {} classes, {}\n", destination,
                  format_count(result.train_samples), format_count(result.test_samples),
                  format_count(result.classes), format_bytes(result.bytes));
  if (result.bad > 0) {
    text += result.bad == 1
                ? "1 bad sample was left out:\n"
                : fmt::format("{} bad samples were left out:\n", format_count(result.bad));
    for (const BadSample& bad : result.first_bad) {
      text += fmt::format("  {}: {}\n", bad.name, bad.cause);
    }
    const int64_t more = result.bad - static_cast<int64_t>(result.first_bad.size());
    if (more > 0) {
      text += fmt::format("  and {} more; `tern data ls {}` lists them\n", format_count(more),
                          destination);
    }
  }
  if (result.ignored > 0) {
    text += result.ignored == 1 ? "1 file is no sample and was passed over\n"
                                : fmt::format("{} files are no samples and were passed over\n",
                                              format_count(result.ignored));
  }
  text += fmt::format(
      "{:.1f} s, {} samples/s", seconds,
      format_count(static_cast<int64_t>(static_cast<double>(here) / std::max(seconds, 1e-9))));
  if (result.taken_over > 0) {
    text += fmt::format("; {} samples were there from before", format_count(result.taken_over));
  }
  text += fmt::format("\nid {}\n", result.id.substr(0, 16));
  if (result.test_samples == 0) {
    text += "There is no test split, which a run needs: import again with --test-share 0.1\n";
  }
  text += fmt::format(
      "Next: tern train FILE --set data.path={}\n"
      "      tern data show {} 0   to look at a sample\n",
      destination, destination);
  return text;
}

}  // namespace

Result<int> data_import_command(const Surroundings& surroundings, const Arguments& arguments) {
  Request request;
  CLI::App app;
  add_flags(app, request);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern data import --help"));
  if (request.help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  RETURN_IF_ERROR(check(app, request));
  request.import.certificates = surroundings.certificates;
  request.import.tern_version = TERN_VERSION;

  RETURN_IF_ERROR(SignalWatcher::block_signals());
  SystemClock clock;
  NoticeBoard board;
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalWatcher> signals,
                   SignalWatcher::start(board, clock, [] { _exit(kExitInterruptedTwice); }));
  Log log(clock, Level::info);
  const Nanoseconds started = clock.now();
  const Result<ImportResult> result =
      import_as_requested(request.import, log, clock, board.stop_token());
  const std::optional<Notice> notice = board.notice();
  if (!result && result.error().code == Code::cancelled && notice) {
    write_stderr(
        fmt::format("tern: stopped by {}; run the same command to go on\n", notice->source));
    return notice->kind == NoticeKind::preempt ? kExitPreempted : kExitStopped;
  }
  if (!result) return result.error();
  fmt::print("{}", format_result(*result, request.import.destination.string(),
                                 to_seconds(clock.now() - started)));
  return kExitDone;
}

}  // namespace tern
