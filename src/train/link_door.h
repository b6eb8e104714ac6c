// The way to ranks that a supervisor of ours started.
#pragma once

#include <memory>

#include "ranks/rank_link.h"
#include "train/rank_door.h"

namespace tern {

class LinkDoor : public RankDoor {
 public:
  explicit LinkDoor(std::unique_ptr<RankLink> link);
  ~LinkDoor() override;

  Result<RankGroup> join(const RankJoin& join, std::stop_token stop) override;
  std::shared_ptr<RendezvousStore> store(const RankGroup& group) override;
  std::stop_token generation_over() const override;
  bool change_is_wanted() const override;
  Status leave_note(const std::string& key, const std::string& text) override;
  Result<std::optional<std::string>> note(const std::string& key) override;
  void tell(RankProgress progress) override;
  void leave(std::string_view why) override;

 private:
  const std::shared_ptr<RankLink> link_;
};

}  // namespace tern
