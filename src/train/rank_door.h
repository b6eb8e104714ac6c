// What a rank knows of the others: the way to them, whoever started them all.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "core/result.h"
#include "ranks/rank_group.h"
#include "train/collectives.h"

namespace tern {

// link_door.h: ranks that a supervisor of ours watches over, whose group changes as they go and
// come. torchrun_door.h: ranks that something else has started, which stay as they are. Owned by
// main(), used by the step loop's thread; the token and change_is_wanted() by any.
class RankDoor {
 public:
  virtual ~RankDoor() = default;

  // Leaves the generation that this rank was in, if any, and blocks until a new one has formed.
  virtual Result<RankGroup> join(const RankJoin& join, std::stop_token stop) = 0;
  // Where its members find each other. May throw what LibTorch throws.
  virtual std::shared_ptr<RendezvousStore> store(const RankGroup& group) = 0;
  // Fires when the generation is over.
  virtual std::stop_token generation_over() const = 0;
  // A rank waits to be let in.
  virtual bool change_is_wanted() const = 0;
  // A few words that the others can look at while this generation lasts, and theirs: nothing if
  // there are none. For when something is wrong; of any thread.
  virtual Status leave_note(const std::string& key, const std::string& text) = 0;
  virtual Result<std::optional<std::string>> note(const std::string& key) = 0;
  // What this rank is doing, for people.
  virtual void tell(RankProgress progress) = 0;
  // On purpose: the others go on without this rank.
  virtual void leave(std::string_view why) = 0;
};

}  // namespace tern
