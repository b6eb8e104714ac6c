#include "train/open_rank_door.h"

#include "ranks/rank_link.h"
#include "train/link_door.h"
#include "train/torchrun_door.h"

namespace tern {

Result<std::unique_ptr<RankDoor>> open_rank_door(const VariableReader& variable, NoticeBoard& board,
                                                 Clock& clock) {
  if (is_supervised(variable)) {
    ASSIGN_OR_RETURN(RankSetup setup, read_rank_setup(variable));
    setup.board = &board;
    setup.clock = &clock;
    ASSIGN_OR_RETURN(std::unique_ptr<RankLink> link, RankLink::open(setup));
    return std::unique_ptr<RankDoor>(new LinkDoor(std::move(link)));
  }
  ASSIGN_OR_RETURN(const std::optional<TorchrunVariables> torchrun, read_torchrun(variable));
  if (torchrun) return open_torchrun(*torchrun);
  return std::unique_ptr<RankDoor>();
}

}  // namespace tern
