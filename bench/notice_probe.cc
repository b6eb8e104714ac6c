// Watches one source of notices many times over and prints when each watcher saw the first one, for
// notice_latency.py. Usage: notice_probe aws|gcp|azure|file ENDPOINT|PATH WATCHERS
//
// The watchers begin one after the other over two seconds, so that their questions are spread as
// those of many machines would be. "ready" is printed once all have begun, then a line of
// milliseconds since 1970 for each.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "preempt/aws_watcher.h"
#include "preempt/azure_watcher.h"
#include "preempt/file_watcher.h"
#include "preempt/gcp_watcher.h"

namespace tern {
namespace {

constexpr Milliseconds kSpread{2'000};
constexpr Milliseconds kPatience{120'000};

std::unique_ptr<Watcher> start(const std::string& source, const CloudSetup& setup) {
  if (source == "aws") return std::make_unique<AwsWatcher>(setup);
  if (source == "gcp") return std::make_unique<GcpWatcher>(setup);
  if (source == "azure") return std::make_unique<AzureWatcher>(setup);
  return std::make_unique<FileWatcher>(*setup.board, *setup.clock, setup.endpoint);
}

int probe(const std::string& source, const std::string& where, int64_t count) {
  SystemClock clock;
  Log log(clock, Level::error);
  std::vector<std::unique_ptr<NoticeBoard>> boards;
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int64_t i = 0; i < count; ++i) {
    boards.push_back(std::make_unique<NoticeBoard>());
    watchers.push_back(start(
        source, {.board = boards.back().get(), .clock = &clock, .log = &log, .endpoint = where}));
    clock.wait_for(kSpread / count, {});
  }
  clock.wait_for(kSpread, {});  // the last one has asked too
  fmt::print("ready\n");
  std::fflush(stdout);
  const Nanoseconds deadline = clock.now() + kPatience;
  for (const auto& board : boards) {
    while (!board->notice() && clock.now() < deadline) clock.wait_for(Milliseconds(1), {});
    if (!board->notice()) return 1;
    fmt::print("{}\n", board->notice()->unix_ms);
  }
  return 0;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  const int64_t count = argc == 4 ? std::atoll(argv[3]) : 0;
  if (count < 1) {
    fmt::print(stderr, "usage: notice_probe aws|gcp|azure|file ENDPOINT|PATH WATCHERS\n");
    return 2;
  }
  return tern::probe(argv[1], argv[2], count);
}
