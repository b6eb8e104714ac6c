// A leader's book of what ranks do together: who works, who waits, what goes over the network.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/rank_loads.h"
#include "train/rank_word.h"

namespace tern {

// A member without its number in the group, which changes: "machine 0 (pid 123)".
std::string process_of(const std::string& member);

// Written from the words that travel with each step anyway, each of which tells of its rank's step
// before. Owned by the step loop; one thread.
class RankBook {
 public:
  // A step of the group: everybody's word, and who they are, by rank; `samples` of the whole batch.
  // Words of a rank's first step tell nothing and are passed over.
  void note(const std::vector<RankWord>& words, const std::vector<std::string>& members,
            int64_t samples);

  // A rank that kept the others waiting for a fifth of the last seconds or more: once when it is
  // found, and again when it is another.
  std::optional<SlowestRank> take_straggler();

  // What goes into the end record: "members", "group", "bytes_per_step".
  nlohmann::json fields() const;

 private:
  GroupTime group_;
  std::map<std::string, RankLoad> loads_;  // by process
  // Since the last look for a straggler.
  std::map<std::string, RankLoad> recent_;
  double recent_seconds_ = 0;
  std::string told_;
};

// {"predicted":1200000,"sent":1210032,"received":1210032,"busy_us":[90,130],"wait_us":[60,20]}:
// what a step's line in the metrics tells of its communication. Bytes are this rank's of this step;
// the times are all ranks', by rank, of the step before.
std::string communication_json(const RankWord& mine, const std::vector<RankWord>& words);

}  // namespace tern
