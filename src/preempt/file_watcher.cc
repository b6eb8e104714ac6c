#include "preempt/file_watcher.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace tern {
namespace {

// Short beside the 30 seconds of the shortest notice a cloud gives; five looks a second cost
// nothing. Polled, because inotify does not see what other machines do on NFS.
constexpr Milliseconds kLookEvery{200};

}  // namespace

FileWatcher::FileWatcher(NoticeBoard& board, Clock& clock, std::filesystem::path path)
    : board_(board),
      clock_(clock),
      path_(std::move(path)),
      thread_([this](std::stop_token stop) { watch(stop); }) {}

void FileWatcher::watch(std::stop_token stop) {
  do {
    std::error_code unreadable;
    if (std::filesystem::exists(path_, unreadable)) {
      board_.post({.kind = NoticeKind::preempt,
                   .source = fmt::format("file {}", path_.string()),
                   .unix_ms = clock_.unix_ms()});
      return;
    }
  } while (clock_.wait_for(kLookEvery, stop));
}

}  // namespace tern
