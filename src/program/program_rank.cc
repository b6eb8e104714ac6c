#include "program/program_rank.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <utility>

#include "core/hash.h"
#include "core/system_files.h"
#include "program/notice_file.h"
#include "ranks/own_address.h"
#include "ranks/socket.h"

namespace tern {
namespace {

// For a program of a group that is over, to end by itself; the others wait meanwhile.
constexpr Milliseconds kEndGrace{200};
// How long after a program's failure it may turn out that another failed first.
constexpr Milliseconds kBlameGrace{300};
// Where no store is kept programs meet where that of rank 0 listens. One of PyTorch's that finds
// nobody there tries again after 0.25 to 0.75 s, so the others begin a little later: by more than
// two that begin together are mostly apart when they have imported it.
constexpr Milliseconds kHeadStart{150};
// How often it is asked whether another rank wants to be let in.
constexpr Milliseconds kLookEvery{250};
// Ranks are at most this far apart: one of them may fetch a checkpoint from a bucket.
constexpr Milliseconds kStartLimit{3'600'000};
// A program that has lived so long has worked, whether or not it saves.
constexpr std::chrono::seconds kLifeThatCounts{60};

constexpr char kStartKey[] = "start";
// How many programs have ended, of all and of one machine, and whether that is every one.
constexpr char kEndedKey[] = "ended";
constexpr char kAllEndedKey[] = "all_ended";
// Set by rank 0 once what they left is saved, or cannot be.
constexpr char kFinishedKey[] = "finished";
constexpr char kKept[] = "kept";
constexpr char kNotKept[] = "not kept";
// Set once one of the ranks was told to leave.
constexpr char kNoticedKey[] = "noticed";
constexpr Milliseconds kNoLimit{-1};

std::string how_it_ended(int code) {
  if (code >= 0) return fmt::format("ended with exit code {}", code);
  return fmt::format("was killed by signal {} ({})", -code, strsignal(-code));
}

int exit_code_for(int code) { return code >= 0 ? code : 128 - code; }

Result<int64_t> free_port(const std::string& address) {
  ASSIGN_OR_RETURN(const Listening listening, listen_on(address));
  ASSIGN_OR_RETURN(const HostAndPort place, parse_address(listening.address));
  return place.port;
}

// The group has changed, or this rank was told to leave: nothing is wrong with it.
bool is_over(const Error& error) {
  return error.code == Code::aborted || error.code == Code::cancelled;
}

std::string of_machine(const char* key, int64_t machine) {
  return fmt::format("{}/{}", key, machine);
}

}  // namespace

Result<int> ProgramRank::run() {
  const std::string settings = fmt::format("program = \"{}\"\n", fmt::join(setup_.words, " "));
  const RankJoin join{.agreement = to_hex(sha256(settings)),
                      .settings = settings.substr(0, kSettingsBytesMax)};
  for (;;) {
    const Result<RankGroup> group = setup_.link->join(join, setup_.board->stop_token());
    if (!group && group.error().code == Code::cancelled) break;
    if (!group) return group.error();
    const Result<std::optional<int>> ended = attempt(*group);
    if (!ended && !is_over(ended.error())) return ended.error();
    if (ended && *ended) {
      // The others need not wait to see the connection closed.
      const Status left = setup_.link->leave("its program has ended");
      if (!left) setup_.log->debug("program", left.error().message);
      return **ended;
    }
  }
  setup_.log->info("program", "told to leave before it was started");
  return code_of_notice();
}

Result<std::optional<int>> ProgramRank::attempt(const RankGroup& group) {
  ASSIGN_OR_RETURN(PlaceInGroup place, find_place(group));
  if (!group.may_take_over) {
    // Most machines are elsewhere and may go on: two groups must not save for one run.
    setup_.log->warn("program", "too few machines are here; it waits for the others");
    setup_.watcher->begin_following();
    return wait_for_another_group();
  }
  const Status agreed = agree_to_start(group, place);
  Result<std::optional<int>> ended = std::optional<int>();
  if (!agreed) {
    ended = agreed.error();
  } else if (setup_.board->notice()) {
    ended = std::optional(code_of_notice());
  } else {
    ended = run_program(place);
  }
  // Until now: programs of other ranks may still be at the store when that of rank 0 has ended.
  server_.reset();
  store_.reset();
  return ended;
}

// Where the programs meet, by PyTorch's store.
Result<int64_t> ProgramRank::open_store(const std::string& address) {
  store_ = std::make_unique<TorchStore>(TorchStore::Setup{
      .on_refused = [log = setup_.log, is_told = false](const std::string& why) mutable {
        if (std::exchange(is_told, true)) return;
        log->warn("program", "a connection to MASTER_PORT was closed", {{"why", why}});
      }});
  ASSIGN_OR_RETURN(
      server_,
      SocketServer::start({.address = address, .handler = store_.get(), .clock = setup_.clock}));
  ASSIGN_OR_RETURN(const HostAndPort place, parse_address(server_->address()));
  return place.port;
}

Result<std::optional<int>> ProgramRank::wait_for_another_group() {
  const std::stop_token over = setup_.link->generation_over();
  while (!over.stop_requested() && !setup_.link->change_is_wanted()) {
    if (setup_.board->notice()) return std::optional(code_of_notice());
    setup_.clock->wait_for(kLookEvery, over);
  }
  return std::optional<int>();
}

Result<PlaceInGroup> ProgramRank::find_place(const RankGroup& group) {
  PlaceInGroup place{.attempt = group.generation,
                     .rank = group.rank,
                     .interface = interface_with(group.interface_address)};
  const auto key = [](int64_t rank) { return fmt::format("machine/{}", rank); };
  RETURN_IF_ERROR(setup_.link->set(key(group.rank), encode_number(setup_.machine)));
  for (int64_t rank = 0; rank < group.world; ++rank) {
    ASSIGN_OR_RETURN(const Bytes told, setup_.link->get(key(rank), kStartLimit, noticed()));
    ASSIGN_OR_RETURN(const int64_t machine, decode_number(told));
    place.machines.push_back(machine);
  }
  return place;
}

// Rank 0 chooses where the program's ranks meet and what they begin from. On each machine one rank
// makes the checkpoint folder so, before any program starts there.
Status ProgramRank::agree_to_start(const RankGroup& group, PlaceInGroup& place) {
  const std::string ready = of_machine("ready", place.machine());
  if (place.rank == 0) {
    ASSIGN_OR_RETURN(const int64_t checkpoint, setup_.watcher->begin_leading(place, group.members));
    // One alone meets nobody, and may start others itself (torch.multiprocessing), as it likes.
    const bool has_store = !setup_.leaves_port_free && place.world() > 1;
    ASSIGN_OR_RETURN(const int64_t port, has_store ? open_store(group.interface_address)
                                                   : free_port(group.interface_address));
    const nlohmann::json start = {{"address", group.interface_address},
                                  {"port", port},
                                  {"has_store", has_store},
                                  {"checkpoint", checkpoint}};
    RETURN_IF_ERROR(setup_.link->set(kStartKey, start.dump()));
  } else {
    setup_.watcher->begin_following();
  }
  ASSIGN_OR_RETURN(const Bytes told, setup_.link->get(kStartKey, kStartLimit, noticed()));
  const auto start = nlohmann::json::parse(told, nullptr, /*allow_exceptions=*/false);
  if (!start.is_object()) return fail(Code::corrupt, "rank 0 tells nothing to start with");
  place.master_address = start.value("address", "");
  place.master_port = start.value("port", int64_t{0});
  place.has_store = start.value("has_store", false);
  if (place.local_rank() == 0) {
    if (place.machine() != place.machines.front()) {
      RETURN_IF_ERROR(setup_.watcher->follow(start.value("checkpoint", int64_t{0})));
    }
    RETURN_IF_ERROR(setup_.link->set(ready, "1"));
  }
  return setup_.link->wait({ready}, kStartLimit, noticed());
}

Result<std::optional<int>> ProgramRank::run_program(const PlaceInGroup& place) {
  std::error_code ignored;
  std::filesystem::remove(setup_.folders.notice_file, ignored);
  const VariableChanges changes = program_variables(place, setup_.folders, setup_.environment);
  if (place.rank != 0 && !place.has_store) {
    setup_.clock->wait_for(kHeadStart, setup_.link->generation_over());
  }
  started_at_ = setup_.clock->now();
  Result<ProgramChild> child =
      ProgramChild::start(setup_.words, changed(setup_.environment, changes));
  if (!child) {
    setup_.log->error("program", child.error().message);
    return std::optional(kProgramNotStarted);
  }
  int code = 0;
  const Why why = watch(*child, code);
  const Blame blame = why == Why::ended ? find_blame(code) : Blame::another;
  if (blame == Blame::another) {
    child->end(kEndGrace);
    setup_.watcher->broke_off();
    if (place.rank == 0) setup_.watcher->interrupted();
    return std::optional<int>();
  }
  if (blame == Blame::own) return std::optional(give_up(place, code));
  return wait_for_others(place, code);
}

// Who made a program end, which may be seen before the cause is: one that loses a peer fails by
// itself, and a signal to all processes of a machine, as Slurm sends it, reaches program and rank
// at the same time. One that was killed was killed by nothing of that.
ProgramRank::Blame ProgramRank::find_blame(int exit_code) {
  if (exit_code == 0 || is_noticed_) return Blame::nobody;
  const bool is_told = exit_code == -SIGTERM || exit_code == -SIGINT;
  if (exit_code < 0 && exit_code != -SIGABRT && !is_told) return Blame::own;
  const std::stop_token over = setup_.link->generation_over();
  std::stop_source either;
  const std::stop_callback on_over(over, [&either] { either.request_stop(); });
  const std::stop_callback on_notice(noticed(), [&either] { either.request_stop(); });
  setup_.clock->wait_for(kBlameGrace, either.get_token());
  if (setup_.board->notice()) {
    take_notice();
    return Blame::nobody;
  }
  if (is_told) return Blame::own;
  // It saved and left, or failed, together with one that was told to.
  const Result<bool> another_left = setup_.link->check({kNoticedKey});
  if (another_left && *another_left) return Blame::another;
  return over.stop_requested() && exit_code != kProgramPreempted ? Blame::another : Blame::own;
}

ProgramRank::Why ProgramRank::watch(ProgramChild& child, int& exit_code) {
  const Result<Descriptor> news = make_wake();
  const auto tell = [&news] {
    if (news) wake(*news);
  };
  const std::stop_token over = setup_.link->generation_over();
  const std::stop_callback on_over(over, tell);
  const std::stop_callback on_notice(setup_.board->stop_token(), tell);
  for (;;) {
    if (const std::optional<int> code = child.try_wait()) {
      exit_code = *code;
      return Why::ended;
    }
    if (!is_noticed_ && setup_.board->notice()) pass_notice(child);
    // A program that was told to leave saves, whatever becomes of the others.
    if (!is_noticed_ && over.stop_requested()) return Why::over;
    if (!is_noticed_ && setup_.link->change_is_wanted()) return Why::change;
    std::array<pollfd, 2> sources{
        {{child.ended_fd(), POLLIN, 0}, {news ? news->get() : -1, POLLIN, 0}}};
    poll(sources.data(), sources.size(), static_cast<int>(kLookEvery.count()));
    if (news) clear_wake(*news);
  }
}

void ProgramRank::take_notice() {
  is_noticed_ = true;
  setup_.watcher->noticed(*setup_.board->notice());
  // Before the program is told, which may tell those of the others.
  setup_.link->set_soon(kNoticedKey, "1");
}

void ProgramRank::pass_notice(const ProgramChild& child) {
  take_notice();
  // The signal counts, with or without the file.
  const Status written = write_notice_file(setup_.folders.notice_file, *setup_.board->notice());
  if (!written) setup_.log->warn("program", written.error().message);
  child.signal(SIGTERM);
}

Status ProgramRank::tell_end(const PlaceInGroup& place) {
  const auto count = [this](const std::string& ended, const std::string& all, int64_t world) {
    const Result<int64_t> so_far = setup_.link->add(ended, 1);
    if (!so_far) return Status(so_far.error());
    return *so_far == world ? setup_.link->set(all, "1") : Status();
  };
  RETURN_IF_ERROR(count(of_machine(kEndedKey, place.machine()),
                        of_machine(kAllEndedKey, place.machine()), place.local_world()));
  return count(kEndedKey, kAllEndedKey, place.world());
}

// Programs end at different times; the group lasts until all have. Those of a machine that must go
// leave without the others.
Result<std::optional<int>> ProgramRank::wait_for_others(const PlaceInGroup& place, int exit_code) {
  const bool is_ended_by_notice = exit_code == -SIGTERM || exit_code == -SIGINT;
  if (exit_code != 0 && exit_code != kProgramPreempted) setup_.watcher->broke_off();
  Status all = tell_end(place);
  if (!is_noticed_) {
    if (all) all = setup_.link->wait({kAllEndedKey}, kNoLimit, noticed());
    // Another has failed: what this one did must be done again.
    if (!all && all.error().code != Code::cancelled) return all.error();
    if (!all) {
      take_notice();
      exit_code = code_of_notice();
      all = {};
    }
  }
  if (is_noticed_) {
    const bool is_for_all = code_of_notice() == kProgramStopped;
    const std::string key = is_for_all ? kAllEndedKey : of_machine(kAllEndedKey, place.machine());
    if (all) all = setup_.link->wait({key}, kNoLimit);
    // What a program fails of when those of others have left before it is no failure.
    const bool has_lost_others = exit_code > 0 && exit_code != kProgramPreempted &&
                                 setup_.link->generation_over().stop_requested();
    if (is_ended_by_notice || has_lost_others) exit_code = code_of_notice();
  }
  const Result<int> ended = finish(place, exit_code_for(exit_code));
  if (!ended) return ended.error();
  return std::optional(*ended);
}

// The others stay until rank 0 has saved, which may take long: if it is lost meanwhile, all are
// needed to do it again.
Result<int> ProgramRank::finish(const PlaceInGroup& place, int exit_code) {
  if (place.rank == 0) {
    exit_code = finish_leading(exit_code);
    const Status told = setup_.link->set(kFinishedKey, has_lost_save_ ? kNotKept : kKept);
    if (!told) setup_.log->debug("program", told.error().message);
    return exit_code;
  }
  const bool is_for_all = code_of_notice() == kProgramStopped;
  const bool leaves_alone = is_noticed_ && !is_for_all && place.machine() != place.machines.front();
  if (leaves_alone) return exit_code;
  const Result<Bytes> finished = setup_.link->get(kFinishedKey, kNoLimit);
  if (!finished && !is_noticed_) return finished.error();
  has_lost_save_ = finished && *finished == kNotKept;
  return has_lost_save_ && exit_code != kProgramPreempted ? kProgramNotKept : exit_code;
}

// 75 stays: whoever starts it again then does so, and it goes on from what was kept before.
int ProgramRank::finish_leading(int exit_code) {
  const Status kept = setup_.watcher->finish(exit_code);
  if (kept) return exit_code;
  has_lost_save_ = true;
  setup_.log->error("program", kept.error().message);
  return exit_code == kProgramPreempted ? exit_code : kProgramNotKept;
}

int ProgramRank::give_up(const PlaceInGroup& place, int exit_code) {
  const std::string how = how_it_ended(exit_code);
  if (exit_code == kProgramPreempted) {
    return place.rank == 0 ? finish_leading(exit_code) : exit_code;
  }
  setup_.watcher->broke_off();
  setup_.log->warn("program", "the program failed",
                   {{"rank", std::to_string(place.rank)},
                    {"attempt", std::to_string(place.attempt)},
                    {"how", how}});
  if (store_ && !store_->was_used()) {
    setup_.log->info(
        "program",
        "nobody had come to MASTER_PORT, where tern keeps the store of PyTorch's ranks; a program "
        "that listens there itself, or chooses a port itself, needs --leave-port-free");
  }
  if (place.rank == 0) setup_.watcher->failed(how, exit_code_for(exit_code));
  // The supervisor then counts its failures anew.
  if (has_progressed()) setup_.link->tell({.step = 1});
  return exit_code_for(exit_code);
}

bool ProgramRank::has_progressed() {
  if (setup_.clock->now() - started_at_ > kLifeThatCounts) return true;
  const Result<bool> saved = setup_.link->check({kSavedKey});
  return saved && *saved;
}

std::stop_token ProgramRank::noticed() const { return setup_.board->stop_token(); }

int ProgramRank::code_of_notice() const {
  const std::optional<Notice> notice = setup_.board->notice();
  const bool is_stop = notice && notice->kind == NoticeKind::stop;
  return is_stop ? kProgramStopped : kProgramPreempted;
}

}  // namespace tern
