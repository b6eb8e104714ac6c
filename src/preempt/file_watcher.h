// Notices from a file: `touch preempt.txt` tells a run that watches that path to save and leave.
#pragma once

#include <filesystem>
#include <stop_token>
#include <thread>

#include "core/clock.h"
#include "preempt/notice.h"
#include "preempt/watcher.h"

namespace tern {

// Posts a preempt notice, once, when something exists at the path; its content does not matter.
// tern-train refuses to start while it exists, so that it is not forgotten and halts every start;
// one that appears between that look and the watcher's first is a notice like any other. It is
// never removed here: whoever put it there may have put it there for others as well. A path that
// cannot be looked at does not exist.
class FileWatcher final : public Watcher {
 public:
  FileWatcher(NoticeBoard& board, Clock& clock, std::filesystem::path path);

 private:
  void watch(std::stop_token stop);

  NoticeBoard& board_;
  Clock& clock_;
  const std::filesystem::path path_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
