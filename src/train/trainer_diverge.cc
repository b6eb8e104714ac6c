// What a run does when its loss is no number any more, or explodes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "train/trainer_process.h"

namespace tern {

void Trainer::note_divergence(const Error& error, const char* done) {
  records_->ledger("diverged", {{"step", state_.step},
                                {"cause", error.message},
                                {"done", done},
                                {"to_step", saved_step_.value_or(0)},
                                {"rate_factor", state_.rate_factor}});
}

// Back to the last checkpoint, or to the beginning, with half the learning rate: with the same one
// it would diverge again, step by step. Of several ranks the leader does it and the others take its
// state; until they have, theirs is none: whoever is lost meanwhile, nobody goes on from it.
Status Trainer::roll_back() {
  const Error why = *divergence_;
  divergence_.reset();
  loader_.reset();
  open_steps_.clear();
  if (!is_together()) return restore_last(why);
  is_joined_ = false;
  has_state_ = false;
  words_.clear();
  RETURN_IF_ERROR(learner_->join(nullptr));
  const Status restored = leads_ ? restore_last(why) : Status();
  const Status shared = share_state(/*source=*/0, restored, /*has_tensors=*/true);
  RETURN_IF_ERROR(shared);
  has_state_ = true;
  is_joined_ = true;
  return learner_->join(group_.get());
}

// Saved at once, so that a kill does not undo it.
Status Trainer::restore_last(const Error& why) {
  // A new learner, because the old one may have steps under way whose results are no numbers.
  RETURN_IF_ERROR(make_learner());
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const std::optional<ResumePoint> point,
                   find_resume_point(checkpoints_, warnings));
  const double factor = state_.rate_factor / 2;
  const int64_t roll_backs = state_.roll_backs + 1;
  note_divergence(why, "rolled_back");
  if (point) {
    RETURN_IF_ERROR(restore(*point));
  } else {
    state_ = {};
    RETURN_IF_ERROR(begin_with_given_weights());
  }
  state_.rate_factor = factor;
  state_.roll_backs = roll_backs;
  state_is_saved_ = false;
  records_->rolled_back(state_.step);
  records_->warning(fmt::format("{}; back at step {} with {} of the learning rate", why.message,
                                state_.step, factor),
                    state_.step);
  return save("roll back");
}

}  // namespace tern
