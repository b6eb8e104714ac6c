// When a command that was killed is started again.
#pragma once

#include <algorithm>
#include <optional>

#include "core/clock.h"

namespace tern {

// Owned by one agent. A command that is killed at once each time is given up after five starts; one
// that has lived for a minute begins to count anew.
class RestartRule {
 public:
  // How long to wait before the next start of a command that has lived so long; nothing: it is
  // given up.
  std::optional<Nanoseconds> next_pause(Nanoseconds lived) {
    constexpr Nanoseconds kShortest = std::chrono::milliseconds(250);
    constexpr Nanoseconds kLongest = std::chrono::seconds(8);
    constexpr Nanoseconds kLife = std::chrono::seconds(60);
    if (lived >= kLife) in_a_row_ = 0;
    if (in_a_row_ == kStartsMax) return std::nullopt;
    return std::min(kShortest * (1 << in_a_row_++), kLongest);
  }

  static constexpr int kStartsMax = 5;

 private:
  int in_a_row_ = 0;
};

}  // namespace tern
