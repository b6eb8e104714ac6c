#include "cli/run_holder.h"

#include <fmt/format.h>

#include "cli/run_list.h"
#include "storage/holder.h"
#include "storage/prefix_store.h"
#include "storage/sequence_reader.h"

namespace tern {
namespace {

constexpr char kCheckpoints[] = "checkpoints";

Error is_trained_by(const std::string& name, const Holder& holder) {
  return fail(Code::failed_precondition,
              fmt::format("{} is being trained by {}; stop it first (`kill {}` makes it save and "
                          "leave), or wait until it has ended",
                          name, holder.to_string(), holder.pid));
}

// Of the newest record: nothing if the run was given back or never held.
Result<Liveness> holder_liveness(const NewestRecord& newest) {
  if (!newest.record || newest.record->kind == RecordKind::release) return Liveness::dead;
  ASSIGN_OR_RETURN(const Holder me, this_process());
  return liveness(newest.record->holder, me);
}

}  // namespace

Status refuse_if_held(ObjectStore& run, const std::string& name) {
  PrefixStore checkpoints(run, kCheckpoints);
  ASSIGN_OR_RETURN(const NewestRecord newest, newest_record(checkpoints));
  ASSIGN_OR_RETURN(const Liveness holder, holder_liveness(newest));
  if (holder != Liveness::alive) return {};
  return is_trained_by(name, newest.record->holder);
}

Result<int64_t> newest_record_number(ObjectStore& run) {
  PrefixStore checkpoints(run, kCheckpoints);
  ASSIGN_OR_RETURN(const NewestRecord newest, newest_record(checkpoints));
  return newest.number;
}

Result<int64_t> wait_until_unheld(ObjectStore& run, const std::string& name, Clock& clock, Log& log,
                                  const std::stop_token& stop) {
  PrefixStore checkpoints(run, kCheckpoints);
  ASSIGN_OR_RETURN(const NewestRecord newest, newest_record(checkpoints));
  ASSIGN_OR_RETURN(const Liveness holder, holder_liveness(newest));
  if (holder == Liveness::alive) return is_trained_by(name, newest.record->holder);
  if (holder == Liveness::dead) return newest.number;
  const Milliseconds term = recorded_options(run).lease.term;
  log.info("run", "its last holder was on another machine; waiting for a sign of life",
           {{"holder", newest.record->holder.to_string()},
            {"seconds", fmt::format("{}", term.count() / 1000)}});
  if (!clock.wait_for(term, stop)) return fail(Code::cancelled, "stopped");
  ASSIGN_OR_RETURN(const NewestRecord later, newest_record(checkpoints));
  if (later.number == newest.number) return newest.number;
  return is_trained_by(name, (later.record ? later : newest).record->holder);
}

}  // namespace tern
