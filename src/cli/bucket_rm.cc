#include "cli/bucket_rm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "cli/run_holder.h"
#include "cli/run_list.h"
#include "storage/prefix_store.h"
#include "storage/sequence.h"
#include "train/resume.h"
#include "train/run_place.h"

namespace tern {
namespace {

constexpr char kCheckpoints[] = "checkpoints/";

Status take_and_mark(ObjectStore& run, const std::string& name, Clock& clock, Log& log) {
  PrefixStore checkpoints(run, kCheckpoints);
  ASSIGN_OR_RETURN(const Holder me, this_process());
  Sequence::Setup setup{
      .store = &checkpoints, .clock = &clock, .me = me, .lease = recorded_options(run).lease};
  setup.on_wait = log_waiting_for_holder(log);
  // Nobody stops it: a signal ends this program, also while it waits.
  ASSIGN_OR_RETURN(const auto held, Sequence::take(std::move(setup), std::stop_token()));
  return run.put(kUnfinishedObject,
                 fmt::format("its removal was begun; `tern rm {}` goes on\n", name));
}

}  // namespace

Status check_removable(ObjectStore& run, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, run.list(""));
  const bool is_begun = run.stat(kUnfinishedObject).has_value();
  if (!is_begun && !holds_run(objects)) {
    return fail(
        objects.empty() ? Code::not_found : Code::failed_precondition,
        fmt::format("{} holds no run, so tern does not remove it; `tern ls URI` lists runs, "
                    "`tern store rm` removes objects",
                    name));
  }
  const std::vector<std::string> others = foreign_names(objects);
  if (!others.empty()) {
    return fail(Code::failed_precondition,
                fmt::format("{} holds more than a run: {}; move that away first", name,
                            fmt::join(others, ", ")));
  }
  return refuse_if_held(run, name);
}

Status remove_bucket_run(ObjectStore& run, const std::string& name, Clock& clock, Log& log) {
  // A copy that was not finished has nobody to be taken from.
  const bool is_begun = run.stat(kUnfinishedObject).has_value();
  if (!is_begun) RETURN_IF_ERROR(take_and_mark(run, name, clock, log));
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, run.list(""));
  std::vector<std::string> names;
  for (const ObjectInfo& object : objects) {
    if (object.name != kUnfinishedObject) names.push_back(object.name);
  }
  RETURN_IF_ERROR(run.remove_all(names));
  return run.remove(kUnfinishedObject);
}

Result<std::vector<OpenUpload>> uploads_below(Bucket& bucket, const std::string& prefix) {
  ASSIGN_OR_RETURN(std::vector<OpenUpload> uploads, bucket.list_uploads(prefix));
  std::erase_if(uploads, [&](const OpenUpload& upload) {
    return !prefix.empty() && upload.name != prefix && !upload.name.starts_with(prefix + "/");
  });
  return uploads;
}

}  // namespace tern
