// What happens to ranks, as the hub that serves them sees it.
#pragma once

#include <cstdint>
#include <string>

#include "ranks/rank_group.h"

namespace tern {

// What the supervisor must know.
struct RankEvent {
  // Part of the format between supervisors: never renumber, only append.
  enum class Kind : uint8_t {
    entered,   // it has proved the secret
    formed,    // it is in `group`; told for each member, by rank
    stepped,   // it has done a step of its own since it joined
    left,      // on purpose: `why`
    lost,      // its connection is gone
    hung,      // it gave no sign of life: `why`
    refused,   // its settings differ: `why`
    stranger,  // somebody without the secret was sent away: `why`
    progress,  // what it tells of itself
  };
  Kind kind = Kind::entered;
  RankIdentity who;
  RankGroup group;
  RankProgress progress;  // what it told last
  std::string why;
};

}  // namespace tern
