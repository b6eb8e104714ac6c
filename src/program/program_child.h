// The user's program, as the rank that runs it sees it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "ranks/socket.h"

namespace tern {

// A child process in a process group of its own, with our stdout and stderr. It dies with the
// thread that started it, and all that it has started with the object. Of one thread, in a process
// that has no other children.
class ProgramChild {
 public:
  // Looks for the program in PATH. not_found, or what else exec() says, if it does not start.
  static Result<ProgramChild> start(const std::vector<std::string>& words,
                                    const std::vector<std::string>& environment);
  ~ProgramChild();
  ProgramChild(ProgramChild&& other) noexcept;
  ProgramChild& operator=(ProgramChild&&) = delete;

  pid_t pid() const { return pid_; }
  int ended_fd() const { return ended_.get(); }  // readable once it has ended

  // To the program itself, not to what it started.
  void signal(int number) const;
  // Its exit code, or minus the signal that killed it; nothing while it runs. What it left
  // running is ended then.
  std::optional<int> try_wait();
  // SIGTERM to the group, and SIGKILL after the grace, to all that it has started; returns once
  // that is gone.
  void end(Milliseconds grace);

 private:
  ProgramChild() = default;

  pid_t pid_ = -1;  // -1: reaped
  Descriptor ended_;
};

}  // namespace tern
