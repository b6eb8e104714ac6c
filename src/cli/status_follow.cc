#include "cli/status_follow.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/status_table.h"
#include "core/mutex.h"
#include "fleet/agent_call.h"
#include "fleet/json_fields.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr Nanoseconds kAskEvery = std::chrono::seconds(1);
constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(100);

// The last that each machine has said of itself.
class LiveStates {
 public:
  LiveStates(const OpenedRun& opened, Clock& clock) : opened_(opened), clock_(clock) {
    for (size_t i = 0; i < opened.shells.size(); ++i) {
      states_.push_back(
          {{"machine", i}, {"name", opened.run.machines[i].machine.name}, {"state", "asked"}});
    }
    for (size_t i = 0; i < opened.shells.size(); ++i) {
      threads_.emplace_back([this, i](std::stop_token stop) { keep_asking(i, stop); });
    }
  }

  std::vector<Json> now() const {
    const MutexLock lock(mutex_);
    return states_;
  }

 private:
  void keep_asking(size_t machine, std::stop_token stop) {
    while (!stop.stop_requested()) {
      Json state = ask_state(opened_.run, opened_.shells, machine, stop);
      if (stop.stop_requested()) return;
      {
        const MutexLock lock(mutex_);
        states_[machine] = std::move(state);
      }
      clock_.wait_for(kAskEvery, stop);
    }
  }

  const OpenedRun& opened_;
  Clock& clock_;
  mutable Mutex mutex_;
  std::vector<Json> states_ GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // last, so that they end first
};

class Screen {
 public:
  bool is_terminal() const { return isatty(STDOUT_FILENO) != 0; }

  void show(const std::vector<std::string>& lines) {
    if (lines == shown_) return;
    if (is_terminal()) {
      redraw(lines);
    } else {
      print_changes(lines);
    }
    shown_ = lines;
    std::fflush(stdout);
  }

 private:
  void redraw(const std::vector<std::string>& lines) {
    winsize size{};
    const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    // A line that the terminal wraps would be two.
    const size_t width = is_known ? size.ws_col : 1000;
    if (!shown_.empty()) fmt::print("\x1b[{}A\x1b[J", shown_.size());
    for (const std::string& line : lines) fmt::print("{}\n", line.substr(0, width));
  }

  void print_changes(const std::vector<std::string>& lines) const {
    for (const std::string& line : lines) {
      if (std::ranges::find(shown_, line) == shown_.end()) fmt::print("{}\n", line);
    }
  }

  std::vector<std::string> shown_;
};

bool is_any(const std::vector<Json>& states, const char* word) {
  return std::ranges::any_of(states,
                             [word](const Json& state) { return text_in(state, "state") == word; });
}

// Something runs, or somebody has not answered yet. A machine that cannot be reached when all
// others have ended is not waited for.
bool goes_on(const std::vector<Json>& states) {
  if (is_any(states, "running") || is_any(states, "asked")) return true;
  return !is_any(states, "ended") && !is_any(states, "lost") && !is_any(states, "absent");
}

}  // namespace

void follow_status(const OpenedRun& opened, Clock& clock, std::stop_token stop) {
  const LiveStates live(opened, clock);
  Screen screen;
  for (;;) {
    const std::vector<Json> states = live.now();
    if (screen.is_terminal() || !is_any(states, "asked")) screen.show(status_lines(states));
    if (!goes_on(states) || !clock.wait_for(kLookEvery, stop)) return;
  }
}

}  // namespace tern
