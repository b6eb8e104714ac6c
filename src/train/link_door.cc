#include "train/link_door.h"

#include "train/rank_store.h"

namespace tern {

LinkDoor::LinkDoor(std::unique_ptr<RankLink> link) : link_(std::move(link)) {}
LinkDoor::~LinkDoor() = default;

Result<RankGroup> LinkDoor::join(const RankJoin& join, std::stop_token stop) {
  return link_->join(join, std::move(stop));
}

// The supervisor keeps keys for one generation alone, so they need no prefix.
std::shared_ptr<RendezvousStore> LinkDoor::store(const RankGroup&) { return store_over(link_); }

std::stop_token LinkDoor::generation_over() const { return link_->generation_over(); }
bool LinkDoor::change_is_wanted() const { return link_->change_is_wanted(); }
Status LinkDoor::leave_note(const std::string& key, const std::string& text) {
  return link_->set(key, text);
}

Result<std::optional<std::string>> LinkDoor::note(const std::string& key) {
  ASSIGN_OR_RETURN(const bool is_there, link_->check({key}));
  if (!is_there) return std::optional<std::string>();
  constexpr Milliseconds kLimit{1'000};  // for what is there
  ASSIGN_OR_RETURN(Bytes text, link_->get(key, kLimit));
  return std::optional<std::string>(std::move(text));
}

void LinkDoor::tell(RankProgress progress) { link_->tell(std::move(progress)); }

// Whoever cannot be told sees the connection close.
void LinkDoor::leave(std::string_view why) { link_->leave(why).permit_unchecked_error(); }

}  // namespace tern
