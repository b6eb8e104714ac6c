// How ranks become a group, at the start and after one was lost or came, and how they get to have
// the same state.
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "train/trainer_process.h"

namespace tern {
namespace {

// For a leader that has left, or was killed, to be gone.
constexpr Milliseconds kPatience{60'000};
constexpr Milliseconds kBetweenTries{2};

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
  loader_.reset();
  group_.reset();
  const std::string settings = settings_of(setup_.config, data_.id);
  ASSIGN_OR_RETURN(generation_, setup_.ranks->join({.step = has_state_ ? state_.step : -1,
                                                    .agreement = to_hex(sha256(settings)),
                                                    .settings = settings},
                                                   setup_.board->stop_token()));
  Result<std::unique_ptr<Collectives>> opened =
      Collectives::open({.rank = generation_.rank,
                         .world = generation_.world,
                         .address = generation_.interface_address,
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
  const Status settled = settle();
  if (settled.has_value()) return true;
  if (group_->is_broken() && settled.error().code == Code::unavailable) return false;
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
  if (leads_ && sequence_ == nullptr) RETURN_IF_ERROR(take_over());
  RETURN_IF_ERROR(learner_->join(group_.get()));
  is_joined_ = true;
  return {};
}

Status Trainer::begin_as_leader() {
  if (setup_.prepare) RETURN_IF_ERROR(setup_.prepare());
  RETURN_IF_ERROR(agree_with_run_folder(config_, *setup_.run));
  if (sequence_ == nullptr) RETURN_IF_ERROR(take_from_the_dead());
  return restore_or_start();
}

// A process that is killed closes its connections before it is dead, and one that leaves is alive
// until it has saved.
Status Trainer::take_from_the_dead() {
  const Nanoseconds end = setup_.clock->now() + kPatience;
  for (;;) {
    const Status taken = take_the_run();
    const bool is_held = !taken.has_value() && taken.error().code == Code::failed_precondition;
    const bool may_wait = generation_.generation > 1 && setup_.clock->now() < end;
    if (!is_held || !may_wait) return taken;
    if (!setup_.clock->wait_for(kBetweenTries, setup_.board->stop_token())) return taken;
  }
}

// The leader is lost: this rank has all that it had, but for what that one has written.
Status Trainer::take_over() {
  RETURN_IF_ERROR(take_from_the_dead());
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
  return pack({{"state", text}, {"saved_step", saved_step_.value_or(-1)}},
              has_tensors ? blobs[0] : Bytes());
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
      ASSIGN_OR_RETURN(fingerprint_, arithmetic_fingerprint(learner));
    }
    RETURN_IF_ERROR(make_learner());
  }
  if (!tensors.empty()) {
    const std::vector<Bytes> blobs = {std::move(tensors)};
    std::vector<Bytes> joined;
    ASSIGN_OR_RETURN(const Safetensors state, gather_tensors(json, blobs, joined));
    RETURN_IF_ERROR(learner_->load(state));
  }
  state_ = text.state;
  state_is_saved_ = false;
  const int64_t saved = header.value("saved_step", int64_t{-1});
  saved_step_ = saved >= 0 ? std::optional(saved) : std::nullopt;
  return {};
}

}  // namespace tern
