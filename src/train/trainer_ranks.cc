// How a process trains as one rank of several: a step, and what ranks tell each other with it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "train/schedule.h"
#include "train/trainer_process.h"

namespace tern {
namespace {

// RankWord::leaves of a rank that only advises to save.
constexpr double kAdvice = 1 + static_cast<int>(NoticeKind::advice);
constexpr double kStop = 1 + static_cast<int>(NoticeKind::stop);

// More than that of one rank, told one with each step, are not worth a run's records.
constexpr size_t kBadWordsMax = 1000;

bool leaves(const RankWord& word) { return word.leaves != 0 && word.leaves != kAdvice; }

}  // namespace

RankWord Trainer::own_word() {
  RankWord word = last_step_;
  word.wants_change = setup_.ranks->change_is_wanted() ? 1 : 0;
  if (const auto notice = setup_.board->notice()) {
    word.leaves = 1 + static_cast<int>(notice->kind);
  } else if (const auto advice = setup_.board->take_advice()) {
    note_notice(*advice);
    word.leaves = kAdvice;
  }
  if (!bad_words_.empty()) word.bad_sample = bad_words_.front();
  return word;
}

// What all have to say, where no step has told it.
Status Trainer::ask_all() {
  const StallWatch::Scope scope(*watch_, work_of(RankWork::agreement, ""));
  std::vector<double> numbers(kRankWordSize * static_cast<size_t>(group_->world()));
  put_word(own_word(), group_->rank(), numbers);
  ASSIGN_OR_RETURN(numbers, group_->sum(std::move(numbers)));
  words_ = read_words(numbers);
  hear_words();
  return {};
}

// A follower's bad samples are told to the leader, which alone writes records.
void Trainer::tell_bad_sample(const BadRead& bad, const Dataset& dataset) {
  if (bad_words_.size() >= kBadWordsMax) return;
  for (size_t phase = 0; phase < data_.phases.size(); ++phase) {
    const PhaseData& data = data_.phases[phase];
    if (&*data.train != &dataset && &*data.test != &dataset) continue;
    bad_words_.push_back(word_of({.phase = static_cast<int64_t>(phase),
                                  .is_test = &*data.train != &dataset,
                                  .is_replaced = bad.replaced_by >= 0,
                                  .sample = bad.sample}));
    return;
  }
}

void Trainer::hear_words() {
  const auto own = static_cast<size_t>(group_->rank());
  if (words_[own].bad_sample != 0) bad_words_.pop_front();
  for (size_t rank = 0; leads_ && rank < words_.size(); ++rank) {
    if (rank == own || words_[rank].bad_sample == 0) continue;
    const BadSampleWord bad = bad_sample_in(words_[rank].bad_sample);
    if (bad.phase >= static_cast<int64_t>(data_.phases.size())) continue;
    const PhaseData& data = data_.phases[static_cast<size_t>(bad.phase)];
    const Dataset& dataset = bad.is_test ? *data.test : *data.train;
    if (bad.sample >= dataset.size()) continue;
    note_bad_sample({.sample = bad.sample,
                     .where = dataset.where(bad.sample),
                     .cause = fmt::format("the log of {} says why", generation_.members[rank]),
                     .replaced_by = bad.is_replaced ? bad.sample : -1},
                    dataset);
  }
}

// Those that followers have not told yet, at the end.
Status Trainer::hear_bad_samples() {
  do {
    RETURN_IF_ERROR(ask_all());
  } while (std::any_of(words_.begin(), words_.end(),
                       [](const RankWord& word) { return word.bad_sample != 0; }));
  return {};
}

// All ranks have the same words, so all come to the same decision.
Result<std::optional<Outcome>> Trainer::heed_words() {
  if (words_.empty()) RETURN_IF_ERROR(ask_all());
  const auto is_any = [this](auto is) { return std::any_of(words_.begin(), words_.end(), is); };
  const auto all_leave = [&] {
    return std::all_of(words_.begin(), words_.end(), leaves) ||
           is_any([](const RankWord& word) { return word.leaves == kStop; });
  };
  const bool is_advised = is_any([](const RankWord& word) { return word.leaves == kAdvice; });
  if (is_advised && !state_is_saved_) RETURN_IF_ERROR(save("notice"));
  // One that goes alone: the notice of the others may be a moment behind.
  if (is_any(leaves) && !all_leave()) RETURN_IF_ERROR(ask_all());
  if (all_leave()) {
    ASSIGN_OR_RETURN(Outcome outcome, leave_with_all());
    return std::optional(std::move(outcome));
  }
  // After a loss those that are left step first: whoever waits to be let in takes longer.
  const bool has_stepped = noted_.generation == generation_.generation;
  const bool is_wanted =
      has_stepped && is_any([](const RankWord& word) { return word.wants_change != 0; });
  if (!is_any(leaves) && !is_wanted) return std::optional<Outcome>();
  if (leaves(words_[static_cast<size_t>(group_->rank())])) {
    const Notice notice = *setup_.board->notice();
    if (!leads_) return std::optional(outcome_of(notice));
    ASSIGN_OR_RETURN(Outcome outcome, leave(notice));
    return std::optional(std::move(outcome));
  }
  if (is_any(leaves) && !state_is_saved_) RETURN_IF_ERROR(save("notice"));
  wants_regroup_ = true;
  return fail(Code::unavailable, "the group changes");
}

Result<Outcome> Trainer::leave_with_all() {
  if (words_.empty()) RETURN_IF_ERROR(ask_all());
  std::optional<Notice> notice = setup_.board->notice();
  const auto first = std::find_if(words_.begin(), words_.end(), leaves);
  if (!notice && first != words_.end()) {
    notice = Notice{.kind = static_cast<NoticeKind>(std::lround(first->leaves) - 1),
                    .source = generation_.members[static_cast<size_t>(first - words_.begin())],
                    .unix_ms = setup_.clock->unix_ms()};
  }
  if (!notice) return fail(Code::internal, "no rank has a notice, and an evaluation ended by one");
  return leads_ ? leave(*notice) : Result<Outcome>(outcome_of(*notice));
}

// The group is gone, and so is the time to wait for another: whoever gets the run saves it.
Result<Outcome> Trainer::leave_alone(const Notice& notice) {
  leads_ = sequence_ != nullptr;
  if (!leads_ && has_state_ && take_the_run(setup_.board->stop_token()).has_value()) {
    const Result<bool> is_behind = is_behind_the_run();
    leads_ = is_behind.has_value() && !*is_behind && take_over().has_value();
  }
  return leads_ ? leave(notice) : Result<Outcome>(outcome_of(notice));
}

// What only the leader knows of an epoch's end: whether it is saved, and whether it was good
// enough.
Result<bool> Trainer::agree_on_epoch() {
  const StallWatch::Scope scope(*watch_, work_of(RankWork::agreement, ""));
  const auto told = [this](bool is) { return leads_ && is ? 1.0 : 0.0; };
  ASSIGN_OR_RETURN(const std::vector<double> agreed,
                   group_->sum({told(state_is_saved_), told(state_.has_target)}));
  state_.has_target = agreed[1] > 0;
  return agreed[0] > 0;
}

// What the watch says of this rank if it lasts.
StallWatch::Work Trainer::work_of(RankWork what, std::string waits_for) {
  return {.what = what,
          .step = state_.step + 1,
          .progress = {.step = state_.step, .rate = rate_, .waits_for = std::move(waits_for)},
          .is_waiting = [this] { return group_->is_waiting(); }};
}

Result<Batch> Trainer::next_batch() {
  StallWatch::Work work =
      work_of(RankWork::data, fmt::format("the data of step {}", state_.step + 1));
  work.is_waiting = nullptr;
  work.data_waits_for = [this] { return loader_->waits_for(); };
  const StallWatch::Scope scope(*watch_, std::move(work));
  return loader_->next(setup_.board->stop_token());
}

Result<StepResults> Trainer::step_with_others(double rate, RankStep& exchange) {
  const StallWatch::Scope scope(
      *watch_, work_of(RankWork::step, fmt::format("all-reduce of step {}", state_.step + 1)));
  return learner_->step_together(state_.step, rate, exchange);
}

// As train_one_step(), with a share of the batch that may be empty. A rank that cannot take the
// step takes part in it all the same, so that the others hear of it.
Status Trainer::train_together() {
  const Nanoseconds start = setup_.clock->now();
  if (loader_ == nullptr || loader_phase_ != timeline_.at(state_.step).phase) make_loader();
  const Timeline::Place place = timeline_.at(state_.step);
  const CommunicationUse before = group_->use();
  spans_.enter(Span::queue);
  const Nanoseconds asked = setup_.clock->now();
  Result<Batch> next = next_batch();
  const Nanoseconds data_wait = setup_.clock->now() - asked;
  spans_.enter(Span::copy);
  RankStep exchange{.samples_planned = phase_at(state_.step).plan->batch(place.batch).size(),
                    .mine = own_word()};
  std::optional<Error> own_error;
  if (next.has_value()) {
    spans_.reassign(Span::queue, Span::fetch, next->waited.fetch);
    spans_.reassign(Span::queue, Span::decode, next->waited.decode);
    spans_.reassign(Span::queue, Span::augment, next->waited.augment);
    for (const BadRead& bad : next->bad) note_bad_sample(bad, *phase_at(state_.step).train);
    exchange.own_samples = next->samples();
    const Status put = next->samples() > 0 ? learner_->put(*next) : Status();
    if (!put.has_value()) own_error = put.error();
  } else {
    exchange.mine.gives_up = 1;
    if (next.error().code != Code::cancelled) own_error = next.error();
  }
  if (own_error) {
    exchange.own_samples = 0;
    exchange.mine.failed = 1 + static_cast<int>(own_error->code);
  }
  spans_.enter(Span::compute);
  const double rate = state_.rate_factor * learning_rate_at(config_, timeline_, state_.step);
  const Result<StepResults> results = step_with_others(rate, exchange);
  spans_.enter(Span::other);
  const CommunicationUse used = group_->use();
  spans_.reassign(Span::compute, Span::communication, used.waited - before.waited);
  if (!results.has_value()) {
    if (results.error().code == Code::out_of_range) divergence_ = results.error();
    return results.error();
  }
  words_ = exchange.all;
  hear_words();
  if (results->empty()) return note_undone(exchange, own_error);
  empty_batches_ = 0;
  open_steps_.push_back({.step = state_.step,
                         .epoch = place.epoch,
                         .samples = exchange.samples,
                         .learning_rate = rate});
  ++state_.step;
  state_.samples += exchange.samples;
  // By the leader's clock, so that a limit of time is reached on all ranks at once.
  state_.train_seconds += words_[0].step_seconds;
  state_is_saved_ = false;
  const Nanoseconds now = setup_.clock->now();
  last_step_ = {.busy_seconds = to_seconds(now - start - (used.waited - before.waited)),
                .step_seconds = to_seconds(now - start),
                .data_seconds = to_seconds(data_wait),
                .predicted_bytes = static_cast<double>(used.bytes - before.bytes)};
  if (used.measured && before.measured) {
    last_step_.sent_bytes = static_cast<double>(used.measured->sent - before.measured->sent);
    last_step_.received_bytes =
        static_cast<double>(used.measured->received - before.measured->received);
  }
  communication_ =
      leads_ && group_->world() > 1 ? communication_json(last_step_, words_) : std::string();
  rate_ = static_cast<double>(exchange.own_samples) / std::max(1e-9, to_seconds(now - start));
  note_group_steps(now, exchange.samples);
  loader_->recycle(std::move(*next));
  return note_results(*results);
}

// A step that nobody took: one rank failed, or was told to leave while it waited for data, or no
// sample of the batch could be read.
Status Trainer::note_undone(const RankStep& exchange, const std::optional<Error>& own) {
  if (own) return *own;
  for (size_t rank = 0; rank < exchange.all.size(); ++rank) {
    const double failed = exchange.all[rank].failed;
    if (failed == 0) continue;
    return fail(
        static_cast<Code>(std::lround(failed) - 1),
        fmt::format("{} cannot go on; its own message says why", generation_.members[rank]));
  }
  if (exchange.is_given_up()) {
    loader_.reset();  // it may have given the batch out already
    return {};
  }
  Batch none;
  return pass_over(none);
}

// Who does how much, and how long there was no step when the group changed.
void Trainer::note_group_steps(Nanoseconds now, int64_t samples) {
  if (leads_) {
    book_.note(words_, generation_.members, samples);
    if (const std::optional<SlowestRank> slowest = book_.take_straggler()) {
      setup_.log->warn("train", "the others wait for " + slowest->name,
                       {{"step", std::to_string(state_.step)},
                        {"its_time_by_theirs", fmt::format("{:.2f}", slowest->ratio)}});
    }
  }
  if (generation_.generation != noted_.generation) {
    if (leads_) note_group(stepped_at_ == Nanoseconds(0) ? 0 : to_seconds(now - stepped_at_));
    noted_ = generation_;
  }
  stepped_at_ = now;
}

void Trainer::note_group(double seconds) {
  const auto missing_in = [](const std::vector<std::string>& from,
                             const std::vector<std::string>& in) {
    std::vector<std::string> missing;
    std::copy_if(from.begin(), from.end(), std::back_inserter(missing),
                 [&](const std::string& member) {
                   return std::none_of(in.begin(), in.end(), [&](const std::string& other) {
                     return process_of(other) == process_of(member);
                   });
                 });
    return missing;
  };
  const auto lost = missing_in(noted_.members, generation_.members);
  records_->ledger("ranks", {{"step", state_.step},
                             {"generation", generation_.generation},
                             {"world", generation_.world},
                             {"members", generation_.members},
                             {"lost", lost},
                             {"joined", missing_in(generation_.members, noted_.members)},
                             {"seconds", seconds}});
  setup_.log->info("train", fmt::format("{} ranks", generation_.world),
                   {{"step", std::to_string(state_.step)},
                    {"lost", lost.empty() ? "none" : fmt::format("{}", fmt::join(lost, ", "))},
                    {"seconds_without_a_step", fmt::format("{:.3f}", seconds)}});
}

nlohmann::json Trainer::ranks_fields() const {
  nlohmann::json fields = book_.fields();
  fields["world"] = generation_.world;
  return fields;
}

}  // namespace tern
