// What a supervisor knows, for others to read: TERN_STATUS_FILE.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"

namespace tern {

struct SupervisorStatus {
  struct Rank {
    int64_t id = 0;
    int64_t pid = 0;
    int64_t pid_start = 0;
    int64_t rank = 0;
    std::string role;  // "leader", "follower", "joining", "starting", "gone"
    int64_t step = -1;
    double rate = 0;
    std::string waits_for;
  };
  int64_t machine = 0;
  int64_t hub = -1;
  int64_t term = 0;
  std::string state;  // "working", "resting", "ending"
  int64_t generation = 0;
  int64_t step = -1;
  std::vector<Rank> ranks;
};

std::string to_json(const SupervisorStatus& status);

// Of one thread. A file that cannot be written is nobody's trouble but the reader's.
class StatusFile {
 public:
  // Empty: nothing is written.
  explicit StatusFile(std::filesystem::path file) : file_(std::move(file)) {}

  bool is_wanted() const { return !file_.empty(); }
  // Written whole, by a rename, if it has changed and the last time was a second ago, or at once if
  // it `must` be.
  void tell(const SupervisorStatus& status, Nanoseconds now, bool must);

 private:
  const std::filesystem::path file_;
  std::string written_;
  std::optional<Nanoseconds> written_at_;
};

}  // namespace tern
