#include "train/stall_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace tern {
namespace {

constexpr int kTimesUsual = 4;
// A stall is told before the supervisor calls a rank hung (ranks.timeout, 10 s), also where steps
// take seconds.
constexpr Nanoseconds kLatest = std::chrono::seconds(7);
constexpr Nanoseconds kBetweenLines = std::chrono::seconds(2);

std::string key_of(int64_t rank) { return fmt::format("stall/{}", rank); }

// [what it waits for with others][newline][what it is at by itself]: one of them is empty, or both
// where a stall is over.
std::string write_note(const std::string& waits, const std::string& does) {
  return waits + "\n" + does;
}

// How a rank that left such a note stands to a collective: nothing if it has come to it.
std::optional<std::string> absence(const std::optional<std::string>& note,
                                   const std::string& collective) {
  const size_t middle = note ? note->find('\n') : std::string::npos;
  if (middle == std::string::npos || note->size() == 1) return "has not come, and says nothing";
  const std::string waits = note->substr(0, middle);
  if (waits == collective) return std::nullopt;
  if (!waits.empty()) return fmt::format("has not come: it waits for {}", waits);
  return fmt::format("has not come: it {}", note->substr(middle + 1));
}

// What others call the work of this rank.
std::string name_of(RankWork what, int64_t step) {
  switch (what) {
    case RankWork::data: return fmt::format("batch {}", step);
    case RankWork::step: return fmt::format("all-reduce of step {}", step);
    case RankWork::agreement: return fmt::format("agreement before step {}", step);
    case RankWork::evaluation: return fmt::format("evaluation before step {}", step);
    case RankWork::checkpoint: return fmt::format("checkpoint before step {}", step);
  }
  return "";
}

std::string busy_with(RankWork what, int64_t step) {
  switch (what) {
    case RankWork::data: return fmt::format("waits for batch {}", step);
    case RankWork::step: return fmt::format("computes step {}", step);
    case RankWork::agreement: return fmt::format("is about to begin step {}", step);
    case RankWork::evaluation: return "evaluates";
    case RankWork::checkpoint: return "saves a checkpoint";
  }
  return "";
}

}  // namespace

StallWatch::StallWatch(const Setup& setup)
    : setup_(setup), thread_([this](const std::stop_token& stop) {
        while (setup_.clock->wait_for(setup_.look_every, stop)) look(setup_.clock->now());
      }) {}

void StallWatch::join(const RankGroup& group) {
  const MutexLock lock(mutex_);
  group_ = group;
}

void StallWatch::begin(Work work) {
  const MutexLock lock(mutex_);
  work_ = std::move(work);
  is_working_ = true;
  ++number_;
  since_ = setup_.clock->now();
  told_.clear();
  setup_.door->tell(work_.progress);
}

void StallWatch::end() {
  const MutexLock lock(mutex_);
  const Nanoseconds lasted = setup_.clock->now() - since_;
  Nanoseconds& usual = usual_[static_cast<size_t>(work_.what)];
  usual = usual == Nanoseconds(0) ? lasted : usual + (lasted - usual) / 10;
  is_working_ = false;
  work_ = {};
  if (told_.empty()) return;
  setup_.log->info("train", "goes on",
                   {{"stalled_seconds", fmt::format("{:.1f}", to_seconds(lasted))}});
}

Nanoseconds StallWatch::limit_of(RankWork what) const {
  const Nanoseconds usual = usual_[static_cast<size_t>(what)];
  const Nanoseconds latest = std::max(kLatest, usual + usual / 2);
  return std::max(Nanoseconds(setup_.least), std::min(kTimesUsual * usual, latest));
}

// Called by the thread.
void StallWatch::look(Nanoseconds now) {
  Look seen;
  {
    const MutexLock lock(mutex_);
    const Nanoseconds limit = limit_of(work_.what);
    const bool is_long = is_working_ && now - since_ >= limit / 2;
    if (!is_long && note_.empty()) return;
    seen = {.number = number_, .what = work_.what, .step = work_.step, .group = group_};
    if (is_long) {
      seen.is_waiting = work_.is_waiting && work_.is_waiting();
      seen.is_stall = now - since_ >= limit + (seen.is_waiting ? setup_.grace : Milliseconds(0));
      if (work_.data_waits_for) seen.data = work_.data_waits_for();
    } else {
      seen.is_over = true;
    }
  }
  leave_note(seen);
  if (!seen.is_stall) return;
  const std::string name = name_of(seen.what, seen.step);
  if (seen.what == RankWork::data) tell(seen, fmt::format("{}: {}", name, seen.data), now);
  if (seen.is_waiting) tell(seen, fmt::format("{}: {}", name, missing_ranks(seen, name)), now);
}

// Only what is new: a note stays until the generation is over.
void StallWatch::leave_note(const Look& seen) {
  const std::string waits = seen.is_waiting ? name_of(seen.what, seen.step) : "";
  std::string does = seen.is_waiting || seen.is_over ? "" : busy_with(seen.what, seen.step);
  if (!seen.data.empty()) does += ": " + seen.data;
  const std::string note = write_note(waits, does);
  if (note == note_ && seen.group.generation == note_generation_) return;
  if (!setup_.door->leave_note(key_of(seen.group.rank), note)) return;
  note_ = seen.is_over ? "" : note;
  note_generation_ = seen.group.generation;
}

std::string StallWatch::missing_ranks(const Look& seen, const std::string& collective) {
  std::vector<std::string> missing;
  for (int64_t rank = 0; rank < seen.group.world; ++rank) {
    if (rank == seen.group.rank) continue;
    const Result<std::optional<std::string>> note = setup_.door->note(key_of(rank));
    if (!note.has_value()) return "whoever has not come cannot be asked for";
    const std::optional<std::string> why = absence(*note, collective);
    if (why) missing.push_back(seen.group.members[static_cast<size_t>(rank)] + " " + *why);
  }
  if (missing.empty()) return "all have come, and the network between them does not answer";
  return fmt::format("{}", fmt::join(missing, "; "));
}

void StallWatch::tell(const Look& seen, const std::string& text, Nanoseconds now) {
  const MutexLock lock(mutex_);
  if (!is_working_ || number_ != seen.number) return;  // it has just gone on
  RankProgress progress = work_.progress;
  progress.waits_for = text;
  setup_.door->tell(std::move(progress));
  if (text == told_ || (!told_.empty() && now - told_at_ < kBetweenLines)) return;
  told_ = text;
  told_at_ = now;
  setup_.log->warn("train", fmt::format("rank {} waits for {}", seen.group.rank, text),
                   {{"seconds", fmt::format("{:.1f}", to_seconds(now - since_))}});
}

}  // namespace tern
