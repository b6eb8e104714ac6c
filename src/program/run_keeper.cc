#include "program/run_keeper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "program/torn_files.h"

namespace tern {
namespace {

// A folder of some files is looked at in microseconds.
constexpr Milliseconds kLookEvery{200};
constexpr std::chrono::seconds kAfterFailure{2};
// What a failing rank waits for its last record: it is wanted back.
constexpr Milliseconds kLastWordsLimit{250};
// Files that still change when all programs have ended are somebody else's.
constexpr int kLastSaves = 5;
// Commits of another that may come between.
constexpr int kTakeOverTries = 3;

constexpr int64_t kUnknownPrice = -1;

std::vector<std::string> without(const std::vector<std::string>& all,
                                 const std::vector<std::string>& others) {
  std::vector<std::string> rest;
  std::ranges::copy_if(all, std::back_inserter(rest), [&](const std::string& one) {
    return std::ranges::find(others, one) == others.end();
  });
  return rest;
}

}  // namespace

Result<std::unique_ptr<RunKeeper>> RunKeeper::create(Setup setup) {
  ASSIGN_OR_RETURN(Holder me, this_process());
  return std::unique_ptr<RunKeeper>(new RunKeeper(std::move(setup), std::move(me)));
}

RunKeeper::RunKeeper(Setup setup, Holder me)
    : setup_(std::move(setup)),
      me_(std::move(me)),
      began_at_(setup_.clock->now()),
      began_unix_ms_(setup_.clock->unix_ms()),
      folder_(make_folder()) {}

RunKeeper::~RunKeeper() { stop_keeping(); }

CheckpointFolder RunKeeper::make_folder() {
  return CheckpointFolder({.run = setup_.run,
                           .folder = setup_.folders.checkpoints,
                           .work = setup_.work,
                           .writer = me_.token,
                           .clock = setup_.clock,
                           .warn = [this](const std::string& sentence) { warn(sentence); }});
}

Result<int64_t> RunKeeper::begin_leading(const PlaceInGroup& place,
                                         const std::vector<std::string>& members) {
  const bool is_alone = place.group_world() == 1;
  const bool has_led = thread_.joinable() && !is_replaced_;
  // A rank that was killed could not do it, and its program died with it.
  if (setup_.is_again && !std::exchange(has_begun_, true)) set_torn_aside(began_unix_ms_);
  const bool is_torn = !list_set_aside(setup_.work).empty();
  if (is_torn) {
    stop_keeping();
    const Result<bool> restored = folder_.restore_torn();
    if (!restored) return restored.error();
  } else {
    forget_set_aside(setup_.work);
  }
  if (!has_led || !is_alone) {
    stop_keeping();
    is_replaced_ = false;
    int64_t restored = 0;
    // On one machine the folder is what the programs have seen until now; the store comes after it.
    const bool adopts = is_alone && setup_.is_again && !setup_.has_peers;
    if (!adopts) {
      ASSIGN_OR_RETURN(restored, take_over(place));
      if (!setup_.is_again) {
        const Status swept = folder_.sweep();
        if (!swept) warn(swept.error().message);
      }
      // What only this machine has is what the others are to begin from.
      if (!is_alone) {
        const Result<bool> saved = save(CheckpointFolder::When::now);
        if (!saved) warn(saved.error().message);
      }
    }
    if (!has_led) tell_start(restored);
    start_keeping(adopts);
  } else if (is_torn) {
    start_keeping(/*adopts=*/false);
  }
  const Nanoseconds lost =
      interrupted_at_ ? setup_.clock->now() - *interrupted_at_ : Nanoseconds(0);
  tell("ranks",
       {{"step", 0},
        {"generation", place.attempt},
        {"world", place.world()},
        {"members", members},
        {"lost", without(members_, members)},
        {"joined", members_.empty() ? std::vector<std::string>() : without(members, members_)},
        {"seconds", to_seconds(lost)}});
  members_ = members;
  interrupted_at_.reset();
  return number_.load();
}

// Returns the number of what it begins from. Another machine may still save, cut off from this one:
// it must not come after what this one saves from now on.
Result<int64_t> RunKeeper::take_over(const PlaceInGroup& place) {
  for (int tries = 0;; ++tries) {
    ASSIGN_OR_RETURN(const int64_t restored, folder_.restore_newest());
    const bool is_first = place.attempt == 1;
    const Status fenced = setup_.has_peers && !is_first ? folder_.fence() : Status();
    if (fenced) {
      number_ = folder_.number();
      return restored;
    }
    if (fenced.error().code != Code::aborted || tries == kTakeOverTries) return fenced.error();
  }
}

void RunKeeper::begin_following() {
  has_begun_ = true;
  stop_keeping();
  members_.clear();
}

Status RunKeeper::follow(int64_t checkpoint) { return folder_.restore(checkpoint); }

void RunKeeper::noticed(const Notice& notice) {
  notice_ = notice.source;
  if (!thread_.joinable()) return;
  nlohmann::json fields = {{"notice", notice.kind == NoticeKind::stop ? "stop" : "preempt"},
                           {"source", notice.source},
                           {"id", notice.id},
                           {"step", 0}};
  if (notice.deadline_unix_ms > 0) fields["deadline_ms"] = notice.deadline_unix_ms;
  tell("notice", std::move(fields));
}

void RunKeeper::broke_off() { set_torn_aside(setup_.clock->unix_ms()); }

void RunKeeper::set_torn_aside(int64_t ended_unix_ms) {
  for (const std::string& path : folder_.set_torn_aside(ended_unix_ms)) {
    setup_.log->warn("program",
                     "a file may be half, since the program broke off while it wrote it or right "
                     "after; it is set aside, and what was kept before it is used",
                     {{"file", path}, {"now_in", (setup_.work / kSetAsideFolder / path).string()}});
  }
}

Status RunKeeper::finish(int exit_code) {
  stop_keeping();
  const Status saved = save_the_rest();
  // The ledger is the other's too.
  if (!saved && saved.error().code == Code::aborted) return saved;
  const std::string but = saved ? "" : fmt::format("; {}", saved.error().message);
  if (!notice_.empty() || exit_code == kProgramPreempted) {
    const bool is_stop = exit_code == kProgramStopped;
    tell_end(is_stop ? "stopped" : "preempted",
             (notice_.empty() ? "the program left by itself" : notice_) + but, exit_code);
  } else if (saved) {
    tell_end("done", "the program has ended on all ranks", exit_code);
  } else {
    tell_end("failed", saved.error().to_string(), kProgramNotKept);
  }
  write_ledger();
  return saved;
}

Status RunKeeper::save_the_rest() {
  for (int i = 0; i < kLastSaves; ++i) {
    const Result<bool> is_new = save(CheckpointFolder::When::now);
    if (!is_new) {
      return fail(is_new.error().code,
                  fmt::format("what the program saved last is not in the run's store: {}. It is in "
                              "{} on this machine: mend that and start the program again here, "
                              "with the same --run (`tern restart`, or `tern program --work {}`), "
                              "or copy it before `tern down`",
                              is_new.error().message, setup_.folders.checkpoints.string(),
                              setup_.work.string()));
    }
    if (!*is_new) break;
  }
  return {};
}

void RunKeeper::failed(const std::string& how, int exit_code) {
  tell_end("failed", fmt::format("the program of rank 0 {}", how), exit_code);
  const Nanoseconds deadline = setup_.clock->now() + kLastWordsLimit;
  MutexLock lock(mutex_);
  written_.wait_for(lock, deadline - setup_.clock->now(), [this] {
    mutex_.assert_held();
    return records_.empty() && !is_writing_;
  });
}

void RunKeeper::interrupted() { interrupted_at_ = setup_.clock->now(); }

void RunKeeper::start_keeping(bool adopts) {
  thread_ = std::jthread([this, adopts](const std::stop_token& stop) { keep(stop, adopts); });
}

void RunKeeper::stop_keeping() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  written_.notify_all();
  thread_.join();
}

void RunKeeper::keep(const std::stop_token& stop, bool adopts) {
  while (adopts && !stop.stop_requested()) {
    const Status adopted = folder_.adopt();
    if (adopted) break;
    warn(adopted.error().message);
    setup_.clock->wait_for(kAfterFailure, stop);
  }
  while (!stop.stop_requested()) {
    write_ledger();
    const Result<bool> saved = save(CheckpointFolder::When::settled);
    if (!saved && saved.error().code == Code::aborted) {
      is_replaced_ = true;
      setup_.log->error("program", saved.error().message);
      return;
    }
    if (!saved) warn(saved.error().message);
    MutexLock lock(mutex_);
    written_.wait_for(lock, stop, last_warning_.empty() ? Nanoseconds(kLookEvery) : kAfterFailure,
                      [this] {
                        mutex_.assert_held();
                        return !records_.empty();
                      });
  }
  write_ledger();
}

// Whether there was something new.
Result<bool> RunKeeper::save(CheckpointFolder::When when) {
  const Nanoseconds began = setup_.clock->now();
  const Result<std::optional<Manifest>> saved = folder_.save(when);
  if (!saved) return saved.error();
  last_warning_.clear();
  if (!*saved) return false;
  number_ = (*saved)->number;
  tell("checkpoint", {{"number", (*saved)->number},
                      {"bytes", (*saved)->size_bytes()},
                      {"seconds", to_seconds(setup_.clock->now() - began)},
                      {"why", "program"}});
  const Status told = setup_.link->set(kSavedKey, "1");
  if (!told) setup_.log->debug("program", told.error().message);
  return true;
}

void RunKeeper::tell(std::string kind, nlohmann::json fields) {
  MutexLock lock(mutex_);
  records_.emplace_back(std::move(kind), std::move(fields));
  written_.notify_all();
}

void RunKeeper::tell_start(int64_t checkpoint) {
  const Result<std::vector<ObjectInfo>> old = setup_.run->list(kLedgerObject);
  const bool is_first = old && old->empty();
  nlohmann::json fields = {
      {"step", 0},
      {"version", setup_.version},
      {"recipe", std::filesystem::path(setup_.words.front()).filename().string()},
      {"command", fmt::format("{}", fmt::join(setup_.words, " "))},
      {"host", me_.host},
      {"pid", me_.pid},
      {"token", me_.token},
      {"holder",
       {{"boot_id", me_.boot_id},
        {"pid_namespace", me_.pid_namespace},
        {"pid_start", me_.pid_start}}}};
  if (!is_first) {
    fields["steps_lost"] = 0;
    if (checkpoint > 0) fields["checkpoint"] = checkpoint;
    if (setup_.is_again) fields["rank_takes_over"] = true;
  }
  tell(is_first ? "start" : "resume", std::move(fields));
}

void RunKeeper::tell_end(const std::string& status, const std::string& reason, int exit_code) {
  tell("end", {{"status", status},
               {"step", 0},
               {"reason", reason},
               {"exit_code", exit_code},
               {"wall_seconds", to_seconds(setup_.clock->now() - began_at_)},
               {"steps_lost", 0}});
}

void RunKeeper::write_ledger() {
  std::vector<std::pair<std::string, nlohmann::json>> records;
  {
    MutexLock lock(mutex_);
    records = std::exchange(records_, {});
    is_writing_ = !records.empty();
  }
  for (const auto& [kind, fields] : records) {
    if (!ledger_) {
      Result<std::unique_ptr<Ledger>> ledger =
          Ledger::open(*setup_.run, *setup_.clock, kUnknownPrice);
      if (!ledger) {
        warn(ledger.error().message);
        break;
      }
      ledger_ = std::move(*ledger);
    }
    const Status written = ledger_->record(kind, fields);
    if (!written) warn(written.error().message);
  }
  MutexLock lock(mutex_);
  is_writing_ = false;
  written_.notify_all();
}

// Each once, until something works again.
void RunKeeper::warn(const std::string& sentence) {
  if (sentence == last_warning_) return;
  last_warning_ = sentence;
  setup_.log->warn("program", sentence);
}

}  // namespace tern
