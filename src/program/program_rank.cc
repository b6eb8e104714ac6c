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
#include "ranks/socket.h"

namespace tern {
namespace {

// For a program of a group that is over, to end by itself; the others wait meanwhile.
constexpr Milliseconds kEndGrace{200};
// How long after a program's failure it may turn out that another failed first.
constexpr Milliseconds kBlameGrace{300};
// How often it is asked whether another rank wants to be let in.
constexpr Milliseconds kLookEvery{250};
// Ranks are at most this far apart: one of them may fetch a checkpoint from a bucket.
constexpr Milliseconds kStartLimit{3'600'000};
// A program that has lived so long has worked, whether or not it saves.
constexpr std::chrono::seconds kLifeThatCounts{60};

constexpr char kStartKey[] = "start";
constexpr char kEndedKey[] = "ended";
constexpr char kAllEndedKey[] = "all_ended";

std::string how_it_ended(int code) {
  if (code >= 0) return fmt::format("ended with exit code {}", code);
  return fmt::format("was killed by signal {} ({})", -code, strsignal(-code));
}

int exit_code_for(int code) { return code >= 0 ? code : 128 - code; }

Result<int64_t> free_port(const std::string& address) {
  ASSIGN_OR_RETURN(const Listening listening, listen_on(address));
  const std::string& text = listening.address;
  const auto port = parse_whole_number(text.substr(text.rfind(':') + 1));
  return port.value_or(0);
}

// The group has changed; nothing is wrong with this rank.
bool is_over(const Error& error) { return error.code == Code::aborted; }

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
    return wait_for_another_group();
  }
  RETURN_IF_ERROR(agree_to_start(group, place));
  if (setup_.board->notice()) return std::optional(code_of_notice());
  return run_program(place);
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
  PlaceInGroup place{.attempt = group.generation, .rank = group.rank};
  const auto key = [](int64_t rank) { return fmt::format("machine/{}", rank); };
  RETURN_IF_ERROR(setup_.link->set(key(group.rank), encode_number(setup_.machine)));
  for (int64_t rank = 0; rank < group.world; ++rank) {
    ASSIGN_OR_RETURN(const Bytes told, setup_.link->get(key(rank), kStartLimit));
    ASSIGN_OR_RETURN(const int64_t machine, decode_number(told));
    place.machines.push_back(machine);
  }
  return place;
}

// Rank 0 chooses where the program's ranks meet and what they begin from. On each machine one rank
// makes the checkpoint folder so, before any program starts there.
Status ProgramRank::agree_to_start(const RankGroup& group, PlaceInGroup& place) {
  const auto ready = [](int64_t machine) { return fmt::format("ready/{}", machine); };
  if (place.rank == 0) {
    ASSIGN_OR_RETURN(const int64_t checkpoint, setup_.watcher->begin_leading(place, group.members));
    ASSIGN_OR_RETURN(const int64_t port, free_port(group.interface_address));
    const nlohmann::json start = {
        {"address", group.interface_address}, {"port", port}, {"checkpoint", checkpoint}};
    RETURN_IF_ERROR(setup_.link->set(kStartKey, start.dump()));
  } else {
    setup_.watcher->begin_following();
  }
  ASSIGN_OR_RETURN(const Bytes told, setup_.link->get(kStartKey, kStartLimit));
  const auto start = nlohmann::json::parse(told, nullptr, /*allow_exceptions=*/false);
  if (!start.is_object()) return fail(Code::corrupt, "rank 0 tells nothing to start with");
  place.master_address = start.value("address", "");
  place.master_port = start.value("port", int64_t{0});
  if (place.local_rank() == 0) {
    if (place.machine() != place.machines.front()) {
      RETURN_IF_ERROR(setup_.watcher->follow(start.value("checkpoint", int64_t{0})));
    }
    RETURN_IF_ERROR(setup_.link->set(ready(place.machine()), "1"));
  }
  return setup_.link->wait({ready(place.machine())}, kStartLimit);
}

Result<std::optional<int>> ProgramRank::run_program(const PlaceInGroup& place) {
  std::error_code ignored;
  std::filesystem::remove(setup_.folders.notice_file, ignored);
  const bool threads_are_set = std::ranges::any_of(
      setup_.environment, [](const auto& entry) { return entry.starts_with("OMP_NUM_THREADS="); });
  const VariableChanges changes = program_variables(place, setup_.folders, threads_are_set);
  started_at_ = setup_.clock->now();
  Result<ProgramChild> child =
      ProgramChild::start(setup_.words, changed(setup_.environment, changes));
  if (!child) {
    setup_.log->error("program", child.error().message);
    return std::optional(kProgramNotStarted);
  }
  int code = 0;
  const Why why = watch(*child, code);
  if (why != Why::ended) {
    child->end(kEndGrace);
    if (place.rank == 0) setup_.watcher->interrupted();
    return std::optional<int>();
  }
  if (code == -SIGTERM && is_noticed_) code = code_of_notice();
  if (code == 0 || is_noticed_) return wait_for_others(place, code);
  if (is_of_another(code)) {
    if (place.rank == 0) setup_.watcher->interrupted();
    return std::optional<int>();
  }
  return std::optional(give_up(place, code));
}

// A program that loses a peer fails by itself, often before that is known here: the failure is the
// other's. One that was killed was not killed by that.
bool ProgramRank::is_of_another(int exit_code) {
  if (exit_code == kProgramPreempted || (exit_code < 0 && exit_code != -SIGABRT)) return false;
  const std::stop_token over = setup_.link->generation_over();
  if (!over.stop_requested()) setup_.clock->wait_for(kBlameGrace, over);
  return over.stop_requested();
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

void ProgramRank::pass_notice(const ProgramChild& child) {
  is_noticed_ = true;
  const Notice notice = *setup_.board->notice();
  setup_.watcher->noticed(notice);
  // The signal counts, with or without the file.
  const Status written = write_notice_file(setup_.folders.notice_file, notice);
  if (!written) setup_.log->warn("program", written.error().message);
  child.signal(SIGTERM);
}

// Programs end at different times; the group lasts until all have.
Result<std::optional<int>> ProgramRank::wait_for_others(const PlaceInGroup& place, int exit_code) {
  const Result<int64_t> ended = setup_.link->add(kEndedKey, 1);
  Status all = ended ? Status() : Status(ended.error());
  if (ended && *ended == place.world()) all = setup_.link->set(kAllEndedKey, "1");
  if (all) all = setup_.link->wait({kAllEndedKey}, Milliseconds(-1));
  // Another has failed, so that what this one did must be done again, unless all leave.
  if (!all && !is_noticed_) return all.error();
  if (place.rank == 0) setup_.watcher->finish(exit_code_for(exit_code));
  return std::optional(exit_code_for(exit_code));
}

int ProgramRank::give_up(const PlaceInGroup& place, int exit_code) {
  const std::string how = how_it_ended(exit_code);
  if (exit_code == kProgramPreempted) {
    if (place.rank == 0) setup_.watcher->finish(exit_code);
    return exit_code;
  }
  setup_.log->warn("program", "the program failed",
                   {{"rank", std::to_string(place.rank)},
                    {"attempt", std::to_string(place.attempt)},
                    {"how", how}});
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

int ProgramRank::code_of_notice() const {
  const std::optional<Notice> notice = setup_.board->notice();
  const bool is_stop = notice && notice->kind == NoticeKind::stop;
  return is_stop ? kProgramStopped : kProgramPreempted;
}

}  // namespace tern
