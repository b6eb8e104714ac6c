// How a run begins from a checkpoint of another (--from), and what holds it to that afterwards.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "train/trainer_process.h"

namespace tern {
namespace {

// Where a run began, by its ledger.
struct Origin {
  bool has_begun = false;
  std::string run;     // that it branched from; empty: it began at step 0
  std::string folder;  // the same, wherever one stands
  int64_t step = 0;
};

Origin read_origin(const std::vector<nlohmann::json>& records) {
  Origin origin;
  for (const nlohmann::json& record : records) {
    const auto kind = record.find("kind");
    if (kind == record.end() || (*kind != "start" && *kind != "resume")) continue;
    origin.has_begun = true;
    const auto from = record.find("from");
    if (from == record.end() || !from->is_object()) continue;
    const auto text = [&](const char* name) {
      const auto found = from->find(name);
      return found != from->end() && found->is_string() ? found->get<std::string>() : "";
    };
    const auto step = from->find("step");
    origin.run = text("run");
    origin.folder = text("folder");
    if (step != from->end() && step->is_number_integer()) origin.step = step->get<int64_t>();
    break;
  }
  return origin;
}

}  // namespace

// What earlier processes have told the ledger: the only time that this one reads it, until it ends.
Result<AccuracyHistory> Trainer::read_past(bool has_checkpoint) {
  int64_t skipped = 0;
  ASSIGN_OR_RETURN(const auto ledger, read_json_records(*setup_.run, kLedgerObject, skipped));
  RETURN_IF_ERROR(check_origin(ledger, has_checkpoint));
  AccuracyHistory accuracy;
  for (const nlohmann::json& record : ledger) accuracy.add(record);
  return accuracy;
}

Status Trainer::check_origin(const std::vector<nlohmann::json>& ledger, bool has_checkpoint) const {
  const Origin origin = read_origin(ledger);
  if (!origin.has_begun) return {};
  const std::string began =
      origin.run.empty() ? "at step 0" : fmt::format("from {}@{}", origin.run, origin.step);
  if (!setup_.from) {
    // A process that died before its first save leaves a branch that has nothing of its source.
    if (has_checkpoint || origin.run.empty()) return {};
    return fail(
        Code::failed_precondition,
        fmt::format("{} began {} and has no checkpoint of its own; give --from {}@{} again, "
                    "or begin at step 0 (--fresh, or another --run)",
                    setup_.run_name, began, origin.run, origin.step));
  }
  const bool is_same_step =
      setup_.from->which != BranchSource::Which::step || setup_.from->step == origin.step;
  const bool is_same_run = !origin.run.empty() && (origin.run == setup_.from->run.to_string() ||
                                                   origin.folder == setup_.from->folder());
  if (is_same_run && is_same_step) return {};
  return fail(
      Code::failed_precondition,
      fmt::format("{} holds a run that began {}, not from {}; give the branch another --run, "
                  "or leave out --from to go on with this one",
                  setup_.run_name, began, setup_.from->to_string()));
}

Result<std::optional<ResumePoint>> Trainer::find_branch() {
  ASSIGN_OR_RETURN(ResumePoint point, find_branch_point(*setup_.from_checkpoints, *setup_.from));
  ASSIGN_OR_RETURN(const auto changes, check_branch(config_, data_.id, point.text));
  for (const OptionChange& change : changes) {
    setup_.log->info("train", "option differs from the run it branches from",
                     {{"key", change.key}, {"there", change.before}, {"here", change.after}});
  }
  return std::optional<ResumePoint>(std::move(point));
}

nlohmann::json Trainer::become_branch(const ResumePoint& point) {
  // What the other run has spent and reached is the other's.
  if (state_.best.step != state_.step) state_.best = {};
  state_.train_seconds = 0;
  state_is_saved_ = false;
  return {{"run", setup_.from->run.to_string()},
          {"folder", setup_.from->folder()},
          {"step", state_.step},
          {"checkpoint", point.checkpoint.record.number}};
}

}  // namespace tern
