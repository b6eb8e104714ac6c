// Log lines for people: time, level, folder, message, key=value pairs. To stderr, and from the
// moment a run folder is known also to its log.txt.
//
//   log.info("train", "resumed", {{"step", "1200"}, {"checkpoint", "17"}});
//   2026-03-01T12:34:56.789Z info  train: resumed step=1200 checkpoint=17
#pragma once

#include <cstdio>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"

namespace tern {

enum class Level { debug, info, warn, error };

// Safe from any thread; a line is written whole. Never log a credential.
class Log {
 public:
  using Fields = std::initializer_list<std::pair<std::string_view, std::string>>;
  // Where a finished line (with its newline) goes besides stderr. A sink must not log.
  using Sink = std::function<void(std::string_view line)>;

  Log(Clock& clock, Level threshold, std::FILE* stream = stderr);

  void debug(std::string_view folder, std::string_view message, Fields fields = {});
  void info(std::string_view folder, std::string_view message, Fields fields = {});
  void warn(std::string_view folder, std::string_view message, Fields fields = {});
  void error(std::string_view folder, std::string_view message, Fields fields = {});

  // Adds a copy of every later line, whatever its level but debug below the threshold.
  void add_sink(Sink sink);

  // A line that is rewritten in place on a terminal (progress). Log lines are printed above it.
  // Pass an empty line to remove it. On a stream that is no terminal this does nothing.
  void set_status_line(std::string line);
  bool is_terminal() const { return is_terminal_; }

 private:
  void write(Level level, std::string_view folder, std::string_view message, Fields fields);

  Clock& clock_;
  const Level threshold_;
  std::FILE* const stream_;
  const bool is_terminal_;

  Mutex mutex_;
  std::vector<Sink> sinks_ GUARDED_BY(mutex_);
  std::string status_line_ GUARDED_BY(mutex_);
};

}  // namespace tern
