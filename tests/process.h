// Starting the real programs in tests, and ending only what was started.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tern {

struct Finished {
  int exit_code = 0;  // minus the signal, if one killed it
  std::string out;
  std::string err;
};

// A running child process. Killed and reaped with the object, if it still runs.
class Process {
 public:
  struct Start {
    std::vector<std::string> command;
    std::map<std::string, std::string> environment;  // added to ours
    std::filesystem::path folder;                    // to run in; empty: here
  };

  explicit Process(const Start& start);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // What it has said on stderr until now.
  std::string err_so_far() const;
  // Waits for its end.
  Finished wait();

 private:
  pid_t pid_ = -1;
  std::filesystem::path out_;
  std::filesystem::path err_;
};

Finished run_to_end(const Process::Start& start);

// Waits until `condition` holds, looking every 10 ms; false after a minute. For events in another
// process, which cannot notify us.
bool wait_until(const std::function<bool()>& condition);

}  // namespace tern
