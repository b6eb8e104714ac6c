// A run of the real `tern` on the tiny data, for the stories in this folder.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "process.h"
#include "tiny_data.h"

namespace tern {

// Of the run file: 300 epochs of 6.
inline constexpr int64_t kWholeRunSteps = 1800;

// A folder with data, a run file and the runs made from it. `tern` is started inside it, so that
// runs are in runs/.
class WorkFolder {
 public:
  WorkFolder();

  std::filesystem::path run(const std::string& name) const { return scratch_ / "runs" / name; }
  std::filesystem::path operator/(const std::string& name) const { return scratch_ / name; }

  // `tern WORDS...` to its end, or started.
  Finished tern(const std::vector<std::string>& words) const;
  Process::Start start(const std::vector<std::string>& words) const;
  // The words of `tern train run.toml --run NAME ...`.
  static std::vector<std::string> train(const std::string& name,
                                        std::vector<std::string> more = {});

  // Steps that the run has recorded so far.
  int64_t steps_recorded(const std::string& name) const;
  // `tern report NAME --json`; an empty object (and a failed test) if that fails.
  nlohmann::json report(const std::string& name) const;
  // The ledger's records of one kind.
  std::vector<nlohmann::json> ledger(const std::string& name, const std::string& kind) const;
  // The loss of each step, the last one recorded for it.
  std::map<int64_t, double> losses(const std::string& name) const;

 private:
  ScratchFolder scratch_;
};

// By the run's metrics: no step from the first to this one is missing, and none is there twice.
void expect_every_step_once(const WorkFolder& place, const std::string& name, int64_t count);
// A sole process that is killed does what it did since its last checkpoint again, to the bit; every
// other step is there once.
void expect_only_lost_steps_twice(const WorkFolder& place, const std::string& name);

}  // namespace tern
