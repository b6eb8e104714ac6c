// How ranks become a group, at the start and after one was lost or came, and how they get to have
// the same state.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "storage/sequence_reader.h"
#include "train/learner_setup.h"
#include "train/trainer_process.h"

namespace tern {
namespace {

// For a store that cannot be reached.
constexpr Milliseconds kBetweenTries{1'000};
// Ranks go in step: one is ahead by one, or by what a GPU has not told yet.
constexpr size_t kLinesShared = 64;

// Stops as soon as one of two does.
class EitherStop {
 public:
  EitherStop(const std::stop_token& a, const std::stop_token& b)
      : a_(a, Forward{&source_}), b_(b, Forward{&source_}) {}

  std::stop_token token() const { return source_.get_token(); }

 private:
  struct Forward {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };

  std::stop_source source_;
  std::stop_callback<Forward> a_;
  std::stop_callback<Forward> b_;
};

// What must be the same on every rank, a line each.
std::string settings_of(RunConfig config, const std::string& data_id) {
  const OptionSet set = describe_run(config);
  std::string text;
  for (const OptionSet::Entry& entry : set.entries()) {
    if (entry.rules.across_ranks != AcrossRanks::must_agree) continue;
    text += fmt::format("{} = {}\n", entry.key, to_toml_value(entry.field));
  }
  return text + fmt::format("data set = {:.12}\n", data_id);
}

// [8 bytes: size of the JSON][JSON][tensors], between ranks of one version.
Bytes pack(const nlohmann::json& header, const Bytes& tensors) {
  const std::string text = header.dump();
  const auto size = static_cast<uint64_t>(text.size());
  Bytes packed(sizeof(size), '\0');
  std::memcpy(packed.data(), &size, sizeof(size));
  return packed + text + tensors;
}

Result<nlohmann::json> unpack(const Bytes& packed, Bytes& tensors) {
  uint64_t size = 0;
  if (packed.size() >= sizeof(size)) std::memcpy(&size, packed.data(), sizeof(size));
  if (packed.size() < sizeof(size) || size > packed.size() - sizeof(size)) {
    return fail(Code::corrupt, "a rank's state was cut off");
  }
  auto header = nlohmann::json::parse(packed.substr(sizeof(size), size), /*callback=*/nullptr,
                                      /*allow_exceptions=*/false);
  if (!header.is_object()) return fail(Code::corrupt, "a rank's state cannot be read");
  tensors = packed.substr(sizeof(size) + size);
  return header;
}

}  // namespace

Status Trainer::begin_together() {
  warm_up();
  return regroup();
}

// While the ranks find each other and the first of them takes the run. What the run's checkpoint
// may change of the options is not known yet: where it does, the step is taken again.
void Trainer::warm_up() {
  if (setup_.device != kCpu) return;
  RunConfig config = config_;
  if (config.train.threads == 0) config.train.threads = setup_.cores;
  const Result<Learner::Setup> learner =
      learner_setup(config, data_.first().shape, data_.classes(), setup_.device, setup_.kernels);
  if (learner.has_value()) warm_up_ = std::make_unique<WarmUp>(*learner);
}

Status Trainer::regroup() {
  const SpanScope span(spans_, is_begun_ ? Span::communication : Span::start);
  wants_regroup_ = false;
  for (;;) {
    ASSIGN_OR_RETURN(const bool is_formed, form_group());
    if (is_formed) return {};
  }
}

// False if one of the others was lost meanwhile.
Result<bool> Trainer::form_group() {
  if (learner_ != nullptr) RETURN_IF_ERROR(learner_->join(nullptr));
  is_joined_ = false;
  words_.clear();
  open_steps_.clear();
  last_step_ = {};
  loader_.reset();
  group_.reset();
  const std::string settings = settings_of(setup_.config, data_.id);
  ASSIGN_OR_RETURN(generation_, setup_.ranks->join({.step = has_state_ ? state_.step : -1,
                                                    .agreement = to_hex(sha256(settings)),
                                                    .settings = settings,
                                                    .lease = has_state_ ? lease_ : -1},
                                                   setup_.board->stop_token()));
  Result<std::unique_ptr<Collectives>> opened =
      Collectives::open({.rank = generation_.rank,
                         .world = generation_.world,
                         .address = generation_.interface_address,
                         .has_gpu = setup_.device != kCpu,
                         .store = setup_.ranks->store(generation_),
                         .over = setup_.ranks->generation_over(),
                         .clock = setup_.clock,
                         .graveyard = &graveyard_});
  if (!opened.has_value()) {
    setup_.log->warn("train", "the group did not form; trying again",
                     {{"cause", opened.error().to_string()}});
    return false;
  }
  group_ = std::move(*opened);
  watch_->join(generation_);
  const Status settled = settle();
  if (settled.has_value()) return true;
  const bool is_over = group_->is_broken() || setup_.ranks->generation_over().stop_requested();
  if (is_over && settled.error().code == Code::unavailable) return false;
  return settled.error();
}

// All of the group have the same state afterwards, and one of them the run.
Status Trainer::settle() {
  leads_ = generation_.rank == 0;
  if (!leads_) {
    if (sequence_ != nullptr) sequence_->release().permit_unchecked_error();
    sequence_.reset();
    if (records_ == nullptr || !records_->is_silent()) {
      records_ = RunRecords::silent(*setup_.run, *setup_.clock, *setup_.log);
    }
  }
  if (generation_.step < 0) {
    const Status begun = leads_ ? begin_as_leader() : Status();
    RETURN_IF_ERROR(share_state(/*source=*/0, begun, /*has_tensors=*/true));
  } else if (generation_.source >= 0) {
    RETURN_IF_ERROR(share_state(generation_.source, {}, /*has_tensors=*/true));
  } else {
    // The same step, and so the same weights; but an epoch's end may have come through to some of
    // them only.
    RETURN_IF_ERROR(share_state(/*source=*/0, {}, /*has_tensors=*/false));
  }
  has_state_ = true;
  RETURN_IF_ERROR(hold_the_run());
  // Its threads begin with the next batch while the ranks agree on what to do.
  if (loader_ == nullptr && state_.step < timeline_.steps()) make_loader();
  RETURN_IF_ERROR(learner_->join(group_.get()));
  is_joined_ = true;
  return {};
}

Status Trainer::begin_as_leader() {
  if (setup_.prepare) RETURN_IF_ERROR(setup_.prepare());
  RETURN_IF_ERROR(agree_with_run_folder(config_, *setup_.run));
  if (sequence_ == nullptr) RETURN_IF_ERROR(take_for_the_group());
  RETURN_IF_ERROR(restore_or_start());
  lease_ = sequence_->lease_number();
  return {};
}

// Makes sure that the leader has the run, and that the group's state is not older than what the run
// has saved: others of the group, cut off from these, may have gone on with it for a while.
Status Trainer::hold_the_run() {
  bool is_behind = false;
  if (leads_ && sequence_ == nullptr) RETURN_IF_ERROR(take_for_the_group());
  if (leads_ && lease_ != sequence_->lease_number()) {
    ASSIGN_OR_RETURN(is_behind, is_behind_the_run());
    if (!is_behind && records_->is_silent()) RETURN_IF_ERROR(take_over());
  }
  const double number = leads_ ? static_cast<double>(sequence_->lease_number()) : 0;
  ASSIGN_OR_RETURN(const std::vector<double> agreed, group_->sum({is_behind ? 1.0 : 0.0, number}));
  if (agreed[0] > 0) {
    has_state_ = false;
    const Status restored = leads_ ? restore_or_start() : Status();
    RETURN_IF_ERROR(share_state(/*source=*/0, restored, /*has_tensors=*/true));
    has_state_ = true;
    spans_before_ = spans_.totals();
    if (leads_ && is_begun_ && setup_.on_start) setup_.on_start(event(state_.step, 0));
  }
  lease_ = std::llround(agreed[1]);
  return {};
}

// Waits while another of the group may hold it, and while the store cannot be reached: what the
// ranks have in their memory is worth more than an end.
Status Trainer::take_for_the_group() {
  const std::stop_token over = setup_.ranks->generation_over();
  const EitherStop stop(setup_.board->stop_token(), over);
  setup_.ranks->tell({.step = state_.step, .waits_for = "the run's lease"});
  for (bool is_first = true;; is_first = false) {
    const Status taken = take_the_run(stop.token());
    if (taken.has_value()) return taken;
    const bool is_lost = taken.error().code == Code::unavailable;
    const bool is_stopped = stop.token().stop_requested();
    if (is_stopped && !setup_.board->notice() &&
        (is_lost || taken.error().code == Code::cancelled)) {
      return fail(Code::unavailable, "the group changed while its leader waited for the run");
    }
    if (!is_lost || !has_state_ || is_stopped) return taken;
    if (is_first) {
      setup_.log->warn("train", "the run cannot be taken over yet; trying again every second",
                       {{"cause", taken.error().to_string()}});
    }
    setup_.clock->wait_for(kBetweenTries, stop.token());
  }
}

// Whether the newest checkpoint is not one that this state comes from.
Result<bool> Trainer::is_behind_the_run() {
  ASSIGN_OR_RETURN(const CheckpointList list, list_checkpoints(checkpoints_));
  if (list.checkpoints.empty()) return false;
  const SequenceRecord& newest = list.checkpoints.back();
  ASSIGN_OR_RETURN(const CheckpointText text, parse_state(newest.state));
  return std::pair(newest.lease, text.state.step) > std::pair(lease_, state_.step);
}

// The leader is lost: this rank has all that it had, but for what that one has written.
Status Trainer::take_over() {
  const std::unique_ptr<RunRecords> mine = std::move(records_);
  ASSIGN_OR_RETURN(AccuracyHistory accuracy, read_past(/*has_checkpoint=*/true));
  RETURN_IF_ERROR(open_records(std::move(accuracy)));
  ASSIGN_OR_RETURN(const int64_t recorded, last_recorded_step(*setup_.run));
  rate_shuffle();
  nlohmann::json fields = process_fields();
  fields["steps_lost"] = std::max<int64_t>(0, recorded - state_.step);
  fields["rank_takes_over"] = true;
  records_->ledger("resume", fields);
  records_->process_begins(std::min(recorded, state_.step));
  for (const StepLine& line : mine->remembered()) {
    if (line.step > recorded && line.step <= state_.step) records_->step(line);
  }
  recorded_step_ = recorded;
  first_samples_ = state_.samples;
  saved_at_ = setup_.clock->now();
  spans_before_ = spans_.totals();
  watch_system();
  setup_.log->info("train", "taking over",
                   {{"run", setup_.run_name}, {"step", std::to_string(state_.step)}});
  if (is_begun_ && setup_.on_start) setup_.on_start(event(state_.step, 0));
  return {};
}

// Brings rank `source`'s state, or the error that kept it from having one, to all others.
Status Trainer::share_state(int64_t source, const Status& begun, bool has_tensors) {
  Bytes packed;
  Status own = begun;
  if (group_->rank() == source) {
    Result<Bytes> state = own.has_value() ? pack_state(has_tensors) : Result<Bytes>(own.error());
    if (!state.has_value()) {
      own = state.error();
      packed =
          pack({{"code", static_cast<int>(own.error().code)}, {"error", own.error().message}}, "");
    } else {
      packed = std::move(*state);
    }
  }
  ASSIGN_OR_RETURN(const Bytes heard, group_->broadcast(std::move(packed), source));
  return group_->rank() == source ? own : adopt_state(heard);
}

Result<Bytes> Trainer::pack_state(bool has_tensors) {
  std::vector<Bytes> blobs;
  if (has_tensors) {
    ASSIGN_OR_RETURN(Bytes tensors, learner_->save());
    blobs.push_back(std::move(tensors));
  }
  ASSIGN_OR_RETURN(const std::string text, state_text(blobs));
  return pack({{"state", text},
               {"saved_step", saved_step_.value_or(-1)},
               {"lease", lease_},
               {"lines", step_lines_json(records_->remembered(), kLinesShared)}},
              has_tensors ? blobs[0] : Bytes());
}

// Steps that the source has finished and this rank has not, because one was lost on the way: they
// are done, but not yet in the records of whoever leads. One of another holder's line has written
// its own.
void Trainer::take_lines(const nlohmann::json& header, int64_t before) {
  const bool is_same_line = header.value("lease", int64_t{-1}) == lease_;
  if (records_ == nullptr || (!records_->is_silent() && !is_same_line)) return;
  for (const StepLine& line : parse_step_lines(header.value("lines", nlohmann::json::array()))) {
    const bool is_missing = line.step > before && line.step > recorded_step_;
    if (is_missing && line.step <= state_.step) records_->step(line);
  }
}

Status Trainer::adopt_state(const Bytes& packed) {
  Bytes tensors;
  ASSIGN_OR_RETURN(const nlohmann::json header, unpack(packed, tensors));
  if (header.contains("error")) {
    const int code = header.value("code", static_cast<int>(Code::internal));
    return fail(static_cast<Code>(code), header.value("error", ""));
  }
  const std::string json = header.value("state", "");
  ASSIGN_OR_RETURN(const CheckpointText text, parse_state(json));
  if (learner_ == nullptr) {
    ASSIGN_OR_RETURN(const auto changes, agree_with_recorded(config_, text.config_toml));
    static_cast<void>(changes);
    RETURN_IF_ERROR(fill_in_config());
    ASSIGN_OR_RETURN(const Learner::Setup learner, setup_of_learner());
    fingerprint_ = text.fingerprint;
    if (text.instruction_set != instruction_set()) {
      ASSIGN_OR_RETURN(fingerprint_, fingerprint_of(learner));
    }
    RETURN_IF_ERROR(make_learner());
  }
  if (!tensors.empty()) {
    const std::vector<Bytes> blobs = {std::move(tensors)};
    std::vector<Bytes> joined;
    ASSIGN_OR_RETURN(const Safetensors state, gather_tensors(json, blobs, joined));
    RETURN_IF_ERROR(learner_->load(state));
  }
  const int64_t before = has_state_ ? state_.step : -1;
  state_ = text.state;
  state_is_saved_ = false;
  take_lines(header, before);
  const int64_t saved = header.value("saved_step", int64_t{-1});
  saved_step_ = saved >= 0 ? std::optional(saved) : std::nullopt;
  return {};
}

}  // namespace tern
