#include "train/resume.h"

#include <fmt/format.h>

namespace tern {
namespace {

// A copy that was cut between two lines reads well and lacks options, which would pass for their
// defaults. All versions write the same option last.
bool is_whole_copy(const std::string& toml) {
  RunConfig config;
  const OptionSet set = describe_run(config);
  const OptionSet::Entry& last = set.entries().back();
  const size_t section = toml.find(fmt::format("\n[{}]\n", last.section()));
  return section != std::string::npos && toml.ends_with('\n') &&
         toml.find(fmt::format("\n{} = ", last.name()), section) != std::string::npos;
}

}  // namespace

Result<std::vector<OptionChange>> agree_with_recorded(RunConfig& config,
                                                      const std::string& recorded_toml) {
  RunConfig recorded;
  OptionSet recorded_set = describe_run(recorded);
  const std::vector<Problem> problems = recorded_set.load_toml(recorded_toml, kRunFileObject);
  if (!problems.empty()) {
    return fail(Code::corrupt, fmt::format("the run's own copy of its options cannot be read: {}",
                                           problems[0].to_string()));
  }
  if (config.train.threads == 0) config.train.threads = recorded.train.threads;
  if (config.model.mean.empty()) config.model.mean = recorded.model.mean;
  if (config.model.stddev.empty()) config.model.stddev = recorded.model.stddev;
  if (config.data.classes == 0) config.data.classes = recorded.data.classes;
  const OptionSet set = describe_run(config);
  std::vector<OptionChange> allowed;
  std::string refused;
  for (OptionChange& change : changed_options(recorded_set, set)) {
    if (change.on_resume == OnResume::may_change) {
      allowed.push_back(std::move(change));
    } else {
      refused += fmt::format("\n  {}: the run has {}, you ask for {}", change.key, change.before,
                             change.after);
    }
  }
  if (!refused.empty()) {
    return fail(
        Code::failed_precondition,
        fmt::format("the run that is there has other options, which cannot change on "
                    "resume:{}\nUse the run's own values, or begin anew (--fresh, or another "
                    "--run).",
                    refused));
  }
  return allowed;
}

Status agree_with_run_folder(RunConfig& config, ObjectStore& run) {
  const Result<Bytes> recorded = run.get(kRunFileObject);
  if (!recorded.has_value()) {
    if (recorded.error().code == Code::not_found) return {};
    return recorded.error();
  }
  if (!is_whole_copy(*recorded)) return {};  // torn: the checkpoint carries its own
  const auto allowed = agree_with_recorded(config, *recorded);
  // A damaged copy decides nothing: the checkpoint carries its own.
  if (!allowed.has_value() && allowed.error().code != Code::corrupt) return allowed.error();
  return {};
}

std::function<void(const Holder&, Milliseconds)> log_waiting_for_holder(Log& log) {
  return [&log](const Holder& holder, Milliseconds term) {
    log.info("train", "waiting for the run's holder, which may be alive elsewhere",
             {{"holder", holder.to_string()}, {"for", format_duration(term)}});
  };
}

Result<std::optional<ResumePoint>> find_resume_point(ObjectStore& checkpoints,
                                                     std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(NewestCheckpoint newest, newest_checkpoint(checkpoints));
  for (const Damage& damage : newest.damaged) {
    warnings.push_back(fmt::format("record {} of the checkpoints is damaged and was skipped: {}",
                                   damage.number, damage.error.message));
  }
  if (!newest.found) return std::optional<ResumePoint>();
  ASSIGN_OR_RETURN(CheckpointText text,
                   parse_state(newest.found->record.state)
                       .at(fmt::format("checkpoint {} was written by another version of tern; use "
                                       "that one, or begin anew (--fresh, or another --run)",
                                       newest.found->record.number)));
  return std::optional<ResumePoint>(ResumePoint{std::move(text), std::move(*newest.found)});
}

}  // namespace tern
