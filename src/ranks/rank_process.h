// One rank's process, as its supervisor sees it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "ranks/socket.h"

namespace tern {

struct RankStart {
  std::filesystem::path program;
  std::vector<std::string> arguments;    // from argv[0] on: what `ps` shows at first
  std::vector<std::string> environment;  // "NAME=value", all of it
  Bytes secret;  // the rank finds it in the pipe that kRankSecretVariable names
};

// Lines that arrive in pieces. A line that never ends is cut.
class Lines {
 public:
  using Sink = std::function<void(std::string_view line)>;  // with its newline
  void add(BytesView bytes, const Sink& sink);
  // The last line, if it has no end.
  void finish(const Sink& sink);

 private:
  std::string begun_;
};

// "was killed by signal 9 (Killed)", of what try_wait() says.
std::string how_it_ended(int code);

// A child process in a process group of its own, with pipes for what it says and nothing to read.
// It dies with the thread that started it (PR_SET_PDEATHSIG), and is killed and reaped with the
// object. Of one thread.
class RankProcess {
 public:
  // Blocks until the program runs. `unavailable` if it does not.
  static Result<RankProcess> start(const RankStart& start);
  ~RankProcess();
  RankProcess(RankProcess&&) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once it has ended, once it has said something.
  int ended_fd() const { return ended_.get(); }
  int out_fd() const { return out_.get(); }
  int err_fd() const { return err_.get(); }

  void kill() const;
  // Its exit code, or minus the signal that killed it; nothing while it runs.
  std::optional<int> try_wait();
  // Passes on what it has said until now. A pipe that is closed is not looked at again.
  void read_output(const Lines::Sink& out, const Lines::Sink& err);
  void finish_output(const Lines::Sink& out, const Lines::Sink& err);

 private:
  RankProcess() = default;

  pid_t pid_ = -1;    // -1: reaped
  Descriptor ended_;  // pidfd
  Descriptor out_;
  Descriptor err_;
  Lines out_lines_;
  Lines err_lines_;
};

}  // namespace tern
