// A watcher: one source of notices, one file per source.
//
//   std::vector<std::unique_ptr<Watcher>> watchers;
//   ASSIGN_OR_RETURN(auto signals, SignalWatcher::start(board, clock, leave_now));
//   watchers.push_back(std::move(signals));
//   if (!halt_file.empty()) {
//     watchers.push_back(std::make_unique<FileWatcher>(board, clock, halt_file));
//   }
#pragma once

namespace tern {

// Watches from construction to destruction, on a thread of its own, and only posts to its board:
// the step loop acts between steps. Owned by main(). Board and clock outlive it. The destructor
// ends the thread and waits for that, no longer than for one look at a file: a question to a
// service is broken off.
class Watcher {
 public:
  Watcher() = default;
  virtual ~Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Called once the run is saved and left because of a notice. Most sources cannot be told.
  virtual void machine_may_go() {}
};

}  // namespace tern
