#include "storage/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/hash.h"

namespace tern {
namespace {

// Each round of take() is lost to another process that took the run in that moment, and each
// attempt of append() meets a torn record or one of our own lost replies. Both are rare.
constexpr int kTakeRoundsMax = 100;
constexpr int kAppendAttemptsMax = 100;
// How often a waiting take() looks whether the holder has written.
constexpr int kLooksPerTerm = 20;
constexpr Milliseconds kShortestSlice{1};
// One of our own group that was lost is gone in a moment, and each moment is one without a step.
constexpr Milliseconds kFirstLook{2};
constexpr Milliseconds kLongestPause{500};
// Of our group and alive on this machine, so it saves before it leaves. Longer, and it hangs.
constexpr std::chrono::seconds kPatience{10};

Error held(const SequenceRecord& newest) {
  return fail(Code::failed_precondition,
              fmt::format("the run is being trained by {} (its record {} is of {}); stop it first, "
                          "or wait until it has ended",
                          newest.holder.to_string(), newest.number, format_utc(newest.unix_ms)));
}

Error lost(int64_t number, const std::string& to) {
  return fail(Code::aborted, fmt::format("lost the run to {}: it took over with record {}; leave "
                                         "the run to it, or stop it and train again",
                                         to, number));
}

SequenceRecord tombstone(int64_t number) {
  SequenceRecord record;
  record.number = number;
  record.kind = RecordKind::pruned;
  return record;
}

// Every blob that record `number` can name, should it be damaged: its holder's lease is no higher.
std::set<std::string> blobs_up_to(const std::vector<ObjectInfo>& objects, int64_t number) {
  std::set<std::string> blobs;
  for (const ObjectInfo& object : objects) {
    const std::optional<int64_t> lease = blob_lease(object.name);
    if (lease && *lease <= number) blobs.insert(object.name);
  }
  return blobs;
}

}  // namespace

Result<std::unique_ptr<Sequence>> Sequence::take(Setup setup, std::stop_token stop) {
  std::unique_ptr<Sequence> sequence(new Sequence(std::move(setup)));
  bool told = false;
  for (int round = 0; round < kTakeRoundsMax; ++round) {
    RETURN_IF_ERROR(sequence->wait_until_free(told, stop).at("take the run"));
    SequenceRecord lease;
    lease.kind = RecordKind::lease;
    const Result<int64_t> number = sequence->append(std::move(lease));
    if (number) {
      sequence->lease_ = *number;
      // Costs only space if it fails, and prune() tries again.
      sequence->clear_unpublished_blobs().permit_unchecked_error();
      return sequence;
    }
    if (number.error().code != Code::aborted) return number.error().at("take the run");
  }
  return fail(Code::aborted, fmt::format("{} times another process took the run first; find out "
                                         "who starts it that often, then try again",
                                         kTakeRoundsMax));
}

bool Sequence::is_free(const NewestRecord& newest) const {
  if (!newest.record || newest.record->kind == RecordKind::release) return true;
  // Ours: an earlier take() of which the reply was lost.
  if (newest.record->holder.token == setup_.me.token) return true;
  const Liveness life = liveness(newest.record->holder, setup_.me);
  if (life == Liveness::dead) return true;
  return life == Liveness::unknown && setup_.takes_from_own_group && is_of_own_group(newest);
}

bool Sequence::is_of_own_group(const NewestRecord& newest) const {
  return newest.record && !setup_.me.group.empty() &&
         newest.record->holder.group == setup_.me.group;
}

// Returns when the next number may be tried, which is then last_ + 1.
Status Sequence::wait_until_free(bool& told, std::stop_token stop) {
  const Nanoseconds begun = setup_.clock->now();
  Nanoseconds heard = begun;
  Nanoseconds pause = kFirstLook;
  for (bool is_first = true;; is_first = false) {
    ASSIGN_OR_RETURN(const NewestRecord newest, newest_record(*setup_.store));
    const bool has_written = std::exchange(last_, newest.number) != newest.number && !is_first;
    if (is_free(newest)) return {};
    const bool is_alive = liveness(newest.record->holder, setup_.me) == Liveness::alive;
    const bool is_own = is_of_own_group(newest);
    if (!is_own && (is_alive || has_written)) return held(*newest.record);
    const Nanoseconds now = setup_.clock->now();
    if (has_written) heard = now;
    if (!is_alive && now - heard >= setup_.lease.term) return {};
    if (is_alive && setup_.takes_from_own_group && now - begun >= kPatience) return {};
    const bool is_worth_telling = !is_own || pause >= kLongestPause;
    if (is_worth_telling && !std::exchange(told, true) && setup_.on_wait) {
      setup_.on_wait(newest.record->holder, setup_.lease.term);
    }
    const Nanoseconds left = heard + setup_.lease.term - now;
    const Nanoseconds slice =
        std::max<Nanoseconds>(setup_.lease.term / kLooksPerTerm, kShortestSlice);
    const Nanoseconds wait = is_own ? pause : std::min(left, slice);
    if (!setup_.clock->wait_for(wait, stop)) {
      return fail(Code::cancelled, fmt::format("stopped while waiting for {}; start again to take "
                                               "the run",
                                               newest.record->holder.to_string()));
    }
    pause = std::min<Nanoseconds>(pause * 2, kLongestPause);
  }
}

// Creates the next number that is free, if all numbers up to it are ours or damaged.
Result<int64_t> Sequence::append(SequenceRecord record) {
  unsure_ = true;
  record.holder = setup_.me;
  record.unix_ms = setup_.clock->unix_ms();
  for (int attempt = 0; attempt < kAppendAttemptsMax; ++attempt) {
    record.number = last_ + 1;
    record.lease = lease_ == 0 ? record.number : lease_;
    const std::string object = record_object(record.number);
    const Bytes bytes = format_record(record);
    const Nanoseconds now = setup_.clock->now();
    const Status created = setup_.store->create(object, bytes);
    if (!created && created.error().code != Code::already_exists) {
      last_failed_ = setup_.clock->now();
      return created.error().at(fmt::format("write record {}", record.number));
    }
    if (!created) {
      ASSIGN_OR_RETURN(const Bytes existing,
                       setup_.store->get(object).at(fmt::format("read record {}", record.number)));
      // Byte for byte ours: it was written and the reply was lost.
      if (existing != bytes) {
        RETURN_IF_ERROR(pass_occupied(record.number, existing));
        continue;
      }
    }
    note(record);
    last_written_ = now;
    unsure_ = false;
    return record.number;
  }
  return fail(Code::unavailable,
              fmt::format("{} numbers in a row, up to {}, are taken by damaged records; check the "
                          "store, then try again",
                          kAppendAttemptsMax, last_));
}

// The number we wanted is taken by something else: `aborted` if that is another holder's record.
Status Sequence::pass_occupied(int64_t number, const Bytes& existing) {
  const Result<SequenceRecord> record = parse_record(existing, number);
  if (record && record->kind == RecordKind::pruned) {
    return lost(number, "a process that has gone on since then");
  }
  if (record && record->holder.token != setup_.me.token) {
    return lost(number, record->holder.to_string());
  }
  if (!record && record.error().code != Code::corrupt) return lost(number, "a newer tern");
  // Ours, from an attempt of which the reply was lost; or torn, and then nobody's.
  if (record) {
    note(*record);
  } else {
    last_ = number;
    // It may be our own commit, torn. prune() does nothing between such a failure and this, so the
    // blobs are all still known.
    kept_[number] = {.damaged = true, .blobs = put_blobs_};
  }
  return {};
}

Sequence::Kept Sequence::kept_of(const SequenceRecord& record) {
  Kept kept{.checkpoint = record.kind == RecordKind::checkpoint, .best = record.best};
  for (const Blob& blob : record.blobs) kept.blobs.insert(blob.object);
  return kept;
}

void Sequence::note(const SequenceRecord& record) {
  last_ = record.number;
  kept_[record.number] = kept_of(record);
}

Result<int64_t> Sequence::publish(std::string state, const std::vector<Bytes>& blobs, bool best) {
  if (!is_json_object(state)) {
    return fail(Code::invalid, "a checkpoint's state must be one JSON object; pass such a text");
  }
  SequenceRecord record;
  record.kind = RecordKind::checkpoint;
  record.best = best;
  record.state = std::move(state);
  for (const Bytes& bytes : blobs) {
    const std::string hash = to_hex(sha256(bytes));
    const Blob blob{blob_object(lease_, hash), hash, static_cast<int64_t>(bytes.size())};
    put_blobs_.insert(blob.object);
    // Also if an object of that name is there already: it may be what a torn put left.
    RETURN_IF_ERROR(setup_.store->put(blob.object, bytes).at("write blob " + blob.object));
    record.blobs.push_back(blob);
  }
  return append(std::move(record));
}

Status Sequence::renew_if_due() {
  // With no term nobody waits for us, so there is nothing to renew.
  if (setup_.lease.term <= Milliseconds(0)) return {};
  const Nanoseconds term = setup_.lease.term;
  const Nanoseconds now = setup_.clock->now();
  if (now - last_written_ < term / 3) return {};
  // Asked for between any two steps: a store that is away must not be waited for at each of them.
  if (last_failed_ && now - *last_failed_ < term / 6) return {};
  return confirm();
}

Status Sequence::confirm() {
  SequenceRecord lease;
  lease.kind = RecordKind::lease;
  RETURN_IF_ERROR(append(std::move(lease)));
  return {};
}

Status Sequence::release() {
  SequenceRecord release;
  release.kind = RecordKind::release;
  RETURN_IF_ERROR(append(std::move(release)));
  return {};
}

// The blobs that the records we keep refer to: those numbered from `oldest` on, the best, and all
// that are damaged.
std::set<std::string> Sequence::blobs_kept(int64_t oldest, int64_t best) const {
  std::set<std::string> referenced;
  for (const auto& [number, kept] : kept_) {
    if (number < oldest && number != best && !kept.damaged) continue;
    referenced.insert(kept.blobs.begin(), kept.blobs.end());
  }
  return referenced;
}

// Looks once whether a checkpoint is in the store. One that was acknowledged and lost is as good as
// damaged, and must not cost the run the one before it.
Status Sequence::look_for(int64_t number, Kept& kept) const {
  if (kept.is_there) return {};
  std::vector<std::string> objects(kept.blobs.begin(), kept.blobs.end());
  objects.push_back(record_object(number));
  for (const std::string& object : objects) {
    const Result<ObjectInfo> found = setup_.store->stat(object);
    if (found) continue;
    if (found.error().code != Code::not_found) return found.error().at("look for " + object);
    kept.checkpoint = false;
    kept.damaged = true;
    return fail(Code::corrupt,
                fmt::format("checkpoint {} was written, but its {} is not there; older ones are "
                            "kept in its place: check the store",
                            number, object));
  }
  kept.is_there = true;
  return {};
}

// First the tombstone, then the blobs: a crash in between leaves blobs that nobody refers to, never
// a checkpoint without its blobs. If it fails the record stays in kept_ and is dropped next time.
Status Sequence::drop(int64_t number, const std::set<std::string>& referenced) {
  RETURN_IF_ERROR(setup_.store->put(record_object(number), format_record(tombstone(number)))
                      .at(fmt::format("drop record {}", number)));
  for (const std::string& blob : kept_[number].blobs) {
    if (referenced.contains(blob)) continue;
    RETURN_IF_ERROR(setup_.store->remove(blob).at("remove blob " + blob));
  }
  kept_.erase(number);
  return {};
}

// An old holder that wakes up in here cannot hurt its successor, without asking whether it has one.
// It knows only numbers up to last_, its own newest, and its successor resumed from the newest
// whole checkpoint among these, which is one of those kept here; so is the best. What it drops, the
// successor would drop as well, by the same bytes. Blobs of the successor are under another lease.
Status Sequence::prune() {
  // A record that we do not know of may refer to a blob that looks like waste.
  if (unsure_) return {};
  if (!scanned_) RETURN_IF_ERROR(clear_unpublished_blobs().at("prune"));

  const int64_t keep = std::max<int64_t>(setup_.checkpoint.keep, 1);
  int64_t checkpoints = 0;
  int64_t oldest = 0;  // of the newest `keep`; 0, below every number, if there are fewer
  int64_t best = 0;
  for (auto it = kept_.rbegin(); it != kept_.rend(); ++it) {
    if (!it->second.checkpoint) continue;
    const bool is_best = it->second.best && best == 0;
    // Others are dropped because these are there.
    if (is_best || checkpoints < keep) RETURN_IF_ERROR(look_for(it->first, it->second).at("prune"));
    if (is_best) best = it->first;
    if (++checkpoints == keep) oldest = it->first;
  }
  const std::set<std::string> referenced = blobs_kept(oldest, best);
  std::vector<int64_t> dropped;
  for (auto it = kept_.begin(); it != kept_.lower_bound(oldest); ++it) {
    if (it->first != best && !it->second.damaged) dropped.push_back(it->first);
  }
  for (int64_t number : dropped) RETURN_IF_ERROR(drop(number, referenced).at("prune"));

  // What publish() put and never committed.
  for (const std::string& object : put_blobs_) {
    if (referenced.contains(object)) continue;
    RETURN_IF_ERROR(setup_.store->remove(object).at("prune"));
  }
  put_blobs_.clear();
  return {};
}

// Scans the sequence once, for prune(), and removes the blobs of earlier holders that no record
// refers to. Those holders cannot publish them any more: all numbers up to our lease are taken.
Status Sequence::clear_unpublished_blobs() {
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, setup_.store->list(""));
  std::map<int64_t, Kept> found;
  bool damaged = false;
  for (const ObjectInfo& object : objects) {
    const std::optional<int64_t> number = record_number(object.name);
    // Numbers above last_ are a successor's, and those above our lease are in kept_ already.
    if (!number || *number >= lease_ || looks_pruned(object, *number)) continue;
    const Result<SequenceRecord> record = read_record(*setup_.store, *number);
    if (!record && record.error().code != Code::corrupt) return record.error();
    damaged = damaged || !record;
    if (record && record->kind == RecordKind::pruned) continue;
    found[*number] =
        record ? kept_of(*record) : Kept{.damaged = true, .blobs = blobs_up_to(objects, *number)};
  }
  for (auto& [number, kept] : found) kept_.insert_or_assign(number, std::move(kept));
  scanned_ = true;
  if (damaged) return {};

  const std::set<std::string> referenced = blobs_kept(0, 0);
  for (const ObjectInfo& object : objects) {
    const std::optional<int64_t> lease = blob_lease(object.name);
    if (!lease || *lease >= lease_ || referenced.contains(object.name)) continue;
    RETURN_IF_ERROR(setup_.store->remove(object.name));
  }
  return {};
}

}  // namespace tern
