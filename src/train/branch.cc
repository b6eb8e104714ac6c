#include "train/branch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tern {
namespace {

// A run that saves all the time drops a checkpoint while we read it at most once or twice.
constexpr int kLooksMax = 5;
// Of a long list, what helps: those near the step that was asked for.
constexpr size_t kStepsNamed = 8;

// Position and order follow from data, batch and seed; the weights fit one shape of network.
constexpr std::string_view kMustAgree[] = {"data.format", "data.classes", "train.batch",
                                           "train.seed",  "model.name",   "model.width"};

struct Listed {
  int64_t number = 0;
  int64_t step = 0;
  bool is_best = false;
};

// What a run's records say, without its blobs; lowest number first.
struct Survey {
  std::vector<Listed> checkpoints;
  std::vector<int64_t> unreadable;  // records of which nothing is known but the number
};

Result<Survey> survey(ObjectStore& store) {
  ASSIGN_OR_RETURN(const CheckpointList list, list_checkpoints(store));
  Survey found;
  for (const Damage& damage : list.damaged) found.unreadable.push_back(damage.number);
  for (const SequenceRecord& record : list.checkpoints) {
    if (const Result<CheckpointText> text = parse_state(record.state)) {
      found.checkpoints.push_back({record.number, text->state.step, record.best});
    } else {
      found.unreadable.push_back(record.number);
    }
  }
  std::ranges::sort(found.unreadable);
  return found;
}

// "1200, 1000 and 1400": the nearest to `step` first.
std::string name_steps(const Survey& survey, int64_t step) {
  std::set<int64_t> different;
  for (const Listed& listed : survey.checkpoints) different.insert(listed.step);
  std::vector<int64_t> steps(different.begin(), different.end());
  std::stable_sort(steps.begin(), steps.end(), [step](int64_t a, int64_t b) {
    return std::abs(a - step) < std::abs(b - step);
  });
  if (steps.size() <= kStepsNamed) return fmt::format("{}", fmt::join(steps, ", "));
  const size_t more = steps.size() - kStepsNamed;
  steps.resize(kStepsNamed);
  return fmt::format("{} and {} more", fmt::join(steps, ", "), more);
}

std::string name_unreadable(const Survey& survey) {
  if (survey.unreadable.empty()) return "";
  return fmt::format(" (record {} of its checkpoints cannot be read)",
                     fmt::join(survey.unreadable, ", "));
}

Error nothing_there(const Survey& survey, const BranchSource& source) {
  const std::string run = source.run.to_string();
  if (survey.checkpoints.empty()) {
    return fail(survey.unreadable.empty() ? Code::not_found : Code::corrupt,
                fmt::format("{} has no checkpoint to branch from{}; name a run that has one: "
                            "`tern ls` lists the runs",
                            run, name_unreadable(survey)));
  }
  if (source.which == BranchSource::Which::best) {
    return fail(Code::not_found,
                fmt::format("no checkpoint of {} is marked as its best{}; name a step, of those "
                            "that are there: {}",
                            run, name_unreadable(survey), name_steps(survey, INT64_MAX)));
  }
  return fail(Code::not_found, fmt::format("{} has no checkpoint of step {}{}; there are those of "
                                           "steps {} (nearest first)",
                                           run, source.step, name_unreadable(survey),
                                           name_steps(survey, source.step)));
}

Result<Listed> choose(const Survey& survey, const BranchSource& source) {
  const auto is_meant = [&source](const Listed& listed) {
    switch (source.which) {
      case BranchSource::Which::newest: return true;
      case BranchSource::Which::best: return listed.is_best;
      case BranchSource::Which::step: return listed.step == source.step;
    }
    return false;
  };
  // Of several the last written: the one that the run itself went on from.
  const auto found = std::find_if(survey.checkpoints.rbegin(), survey.checkpoints.rend(), is_meant);
  if (found == survey.checkpoints.rend()) return nothing_there(survey, source);
  const bool may_be_unreadable = source.which != BranchSource::Which::step &&
                                 !survey.unreadable.empty() &&
                                 survey.unreadable.back() > found->number;
  if (may_be_unreadable) {
    return fail(Code::corrupt,
                fmt::format("record {} of the checkpoints of {} is damaged, and may be the one "
                            "that {} means; name a step, of those that are there: {}",
                            survey.unreadable.back(), source.run.to_string(), source.to_string(),
                            name_steps(survey, found->step)));
  }
  return *found;
}

}  // namespace

Result<ResumePoint> find_branch_point(ObjectStore& checkpoints, const BranchSource& source) {
  for (int look = 0; look < kLooksMax; ++look) {
    ASSIGN_OR_RETURN(Survey there, survey(checkpoints));
    ASSIGN_OR_RETURN(const Listed chosen, choose(there, source));
    Result<FoundCheckpoint> found = read_checkpoint(checkpoints, chosen.number);
    if (!found && found.error().code == Code::not_found) continue;
    if (!found && found.error().code == Code::corrupt) {
      std::erase_if(there.checkpoints, [&](const Listed& c) { return c.step == chosen.step; });
      return fail(Code::corrupt,
                  fmt::format("{} cannot be read: {}; choose another of its checkpoints "
                              "by its step{}",
                              source.to_string(), found.error().message,
                              there.checkpoints.empty() ? " when it has one"
                                                        : ": " + name_steps(there, chosen.step)));
    }
    if (!found) return found.error();
    ASSIGN_OR_RETURN(CheckpointText text, parse_state(found->record.state));
    return ResumePoint{std::move(text), std::move(*found)};
  }
  return fail(Code::unavailable,
              fmt::format("{} drops its checkpoints faster than they can be read; try again, or "
                          "let it keep more of them (checkpoint.keep)",
                          source.run.to_string()));
}

Result<std::vector<OptionChange>> check_branch(RunConfig& mine, std::string_view dataset_id,
                                               const CheckpointText& source) {
  RunConfig theirs;
  OptionSet their_set = describe_run(theirs);
  const std::vector<Problem> problems = their_set.load_toml(source.config_toml, kRunFileObject);
  if (!problems.empty()) {
    return fail(Code::corrupt,
                fmt::format("the options that the other run's checkpoint was made with cannot be "
                            "read: {}; branch with the version of tern that wrote it, {}",
                            problems[0].to_string(), source.version));
  }
  if (mine.train.threads == 0) mine.train.threads = theirs.train.threads;
  if (mine.model.mean.empty()) mine.model.mean = theirs.model.mean;
  if (mine.model.stddev.empty()) mine.model.stddev = theirs.model.stddev;
  if (mine.data.classes == 0) mine.data.classes = theirs.data.classes;
  std::vector<OptionChange> allowed;
  std::string refused;
  for (OptionChange& change : changed_options(their_set, describe_run(mine))) {
    if (std::ranges::find(kMustAgree, change.key) == std::end(kMustAgree)) {
      allowed.push_back(std::move(change));
    } else {
      refused += fmt::format("\n  {}: the other run has {}, you ask for {}", change.key,
                             change.before, change.after);
    }
  }
  if (source.dataset_id != dataset_id) {
    refused += fmt::format(
        "\n  the data set: the other run's is {:.12}, that of data.path = {} "
        "is {:.12}",
        source.dataset_id, quote_toml(mine.data.path), dataset_id);
  }
  if (refused.empty()) return allowed;
  return fail(Code::failed_precondition,
              fmt::format("this run cannot begin with a checkpoint of another that differs in:{}\n"
                          "Use the other run's values, or begin without --from.",
                          refused));
}

}  // namespace tern
