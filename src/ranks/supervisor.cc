#include "ranks/supervisor.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>
#include <utility>

#include "ranks/orphans.h"
#include "ranks/rank_link.h"
#include "storage/proc_stat.h"

namespace tern {
namespace {

// For advice, which wakes nobody, and clocks.
constexpr Milliseconds kLookEvery{500};
// Among others: a hub that is lost is to be replaced soon.
constexpr Milliseconds kLookEveryMeshed{100};
// Ranks that are still there so long after the leader has ended are stuck.
constexpr std::chrono::seconds kStragglerLimit{60};
// A rank that dies again and again is given time: 0.25 s, 0.5 s, ... 8 s.
constexpr Milliseconds kRestartPause{250};
constexpr int64_t kPauseDoublings = 5;
// Its start takes a core for a moment, which is better spent on steps while a group begins or
// recovers.
constexpr std::chrono::seconds kStandbyPause{1};
// It also lets one that the group lacks start first: two at once take twice as long.
constexpr Milliseconds kStandbyLook{50};
// Strangers at the port that are told of.
constexpr int64_t kStrangersTold = 3;
// What a dead rank had started is killed before anything is started again; one that waits for a
// disk that is gone does not die.
constexpr std::chrono::seconds kOrphansLimit{10};
constexpr Milliseconds kLookAtOrphansEvery{2};

}  // namespace

Supervisor::Supervisor(SupervisorSetup setup)
    : setup_(std::move(setup)), status_file_(setup_.status_file) {}

Supervisor::~Supervisor() {
  places_.clear();  // they end before what they talk to
  if (!setup_.ends_orphans || !mesh_) return;
  orphans_until_ = setup_.clock->now() + kOrphansLimit;
  for (end_what_is_left(); orphans_until_; end_what_is_left()) {
    setup_.clock->wait_for(kLookAtOrphansEvery, {});
  }
}

Result<int> Supervisor::run() {
  // A parent that ignores its children's ends leaves us without their exit codes.
  std::signal(SIGCHLD, SIG_DFL);
  if (setup_.ends_orphans) not_ours_ = adopt_orphans();
  ASSIGN_OR_RETURN(wake_, make_wake());
  ASSIGN_OR_RETURN(mesh_, Mesh::start({.options = setup_.options,
                                       .has_boundaries = setup_.has_boundaries,
                                       .place = setup_.place,
                                       .on_news = [this] { wake(wake_); },
                                       .clock = setup_.clock,
                                       .log = setup_.log}));
  const std::stop_callback on_notice(setup_.board->stop_token(), [this] { wake(wake_); });
  while (!is_over()) {
    RETURN_IF_ERROR(start_those_due());
    wait_for_news();
    take_events();
    pass_notices();
    RETURN_IF_ERROR(look_at_processes());
    dismiss_standby();
    kill_stragglers();
    tell_status(false);
  }
  tell_status(true);
  return result();
}

// The places stay for as long as the supervisor does.
void Supervisor::begin_work() {
  for (int64_t id = 0; id < setup_.options.count; ++id) {
    places_.push_back({.id = id, .start_at = setup_.clock->now(), .rank = id});
  }
  if (mesh_->machine() == 0) leader_ = 0;
}

// Places like all others: whoever dies becomes the standby, and the standby its successor.
void Supervisor::begin_standby() {
  if (mesh_->is_meshed() || std::ssize(places_) != setup_.options.count) return;
  for (int64_t i = 0; i < setup_.options.standby; ++i) {
    const int64_t id = setup_.options.count + i;
    places_.push_back({.id = id, .start_at = setup_.clock->now() + kStandbyPause, .rank = id});
  }
}

// Somebody waits to step in.
bool Supervisor::has_standby() const {
  return std::ranges::any_of(places_, [](const Place& place) {
    return place.process && !place.is_in_group && place.role == "joining";
  });
}

// There are as many as a group has, so that the next would only stand by, and one of them is still
// on its way into the group.
bool Supervisor::another_comes_first() const {
  const RanksOptions& options = setup_.options;
  int64_t running = 0;
  int64_t in_group = 0;
  for (const Place& place : places_) {
    running += place.process ? 1 : 0;
    in_group += place.process && place.is_in_group ? 1 : 0;
  }
  const int64_t whole = options.max == 0 ? options.count : std::min(options.max, options.count);
  return running >= options.count && in_group < whole;
}

bool Supervisor::has_seen_end() const {
  return std::ranges::any_of(places_, [this](const Place& place) {
    return place.exit_code && *place.exit_code >= 0 && setup_.is_end(*place.exit_code);
  });
}

// Nobody is left whose place they could take, or too few for a group.
void Supervisor::dismiss_standby() {
  const auto is_in_group = [](const Place& place) { return place.process && place.is_in_group; };
  const bool are_too_few = !mesh_->is_meshed() && has_seen_end() && living() < setup_.options.min;
  const bool has_ended = has_begun_ && (leader_ended_at_ || mesh_->run_has_ended() || are_too_few);
  if (!has_ended || std::ranges::any_of(places_, is_in_group)) return;
  for (Place& place : places_) {
    place.start_at.reset();
    if (place.process && !std::exchange(place.is_dismissed, true)) place.process->kill();
  }
}

// Also tells the others how it is.
bool Supervisor::is_over() {
  mesh_->turn(doing(), living());
  if (places_.empty() && mesh_->should_work() && !is_leaving_ && !mesh_->run_has_ended()) {
    begin_work();
    mesh_->turn(doing(), living());
  }
  if (places_.empty()) return is_leaving_ || mesh_->run_has_ended();
  if (living() > 0) return false;
  // The hub stays for those that have not ended yet, unless its machine goes. They end, or fall
  // silent.
  return doing() != PeerState::Doing::done || !mesh_->is_needed();
}

PeerState::Doing Supervisor::doing() const {
  using Doing = PeerState::Doing;
  if (places_.empty()) return is_leaving_ ? Doing::leaving : Doing::resting;
  if (living() > 0) return Doing::working;
  const std::optional<Notice> notice = setup_.board->notice();
  const bool is_stopped = notice && notice->kind == NoticeKind::stop;
  return is_stopped || has_seen_end() ? Doing::done : Doing::leaving;
}

Status Supervisor::start(Place& place) {
  place.start_at.reset();
  place.exit_code.reset();
  RankCommand command = setup_.command(has_begun_ || mesh_->has_begun());
  RankStart start{.program = setup_.program, .secret = mesh_->secret()};
  start.arguments = {fmt::format("{}: {} rank {}", setup_.title, setup_.run, place.id)};
  std::ranges::move(command.arguments, std::back_inserter(start.arguments));
  start.environment = std::move(command.environment);
  const std::vector<std::pair<const char*, std::string>> variables = {
      {kRankAddressVariable, mesh_->ranks_address()},
      {kRankIdVariable, std::to_string(place.id)},
      {kRankMachineVariable, std::to_string(mesh_->machine())},
      {kRankInterfaceVariable, mesh_->interface_address()},
      {kRankReconnectsVariable, mesh_->is_meshed() ? "1" : "0"},
      {kRankHeartbeatVariable, std::to_string(setup_.options.heartbeat.count())}};
  for (const auto& [name, value] : variables) {
    start.environment.push_back(fmt::format("{}={}", name, value));
  }
  ASSIGN_OR_RETURN(RankProcess process, RankProcess::start(start));
  place.process.emplace(std::move(process));
  place.role = "starting";
  place.is_in_group = false;
  place.progress = {};
  const auto stat = read_process_stat(std::to_string(place.process->pid()));
  place.pid_start = stat ? stat->start : 0;
  return {};
}

Status Supervisor::start_those_due() {
  if (orphans_until_) return {};
  for (Place& place : places_) {
    if (!place.start_at || *place.start_at > setup_.clock->now()) continue;
    if (another_comes_first()) {
      place.start_at = setup_.clock->now() + kStandbyLook;
      continue;
    }
    const Status started = start(place);
    if (started.has_value()) continue;
    if (!has_begun_) return started.error();
    plan_restart(place, started.error().message);
  }
  return {};
}

void Supervisor::wait_for_news() {
  Nanoseconds wait = mesh_->is_meshed() ? kLookEveryMeshed : kLookEvery;
  std::vector<pollfd> sources = {{wake_.get(), POLLIN, 0}};
  for (const Place& place : places_) {
    if (place.start_at) wait = std::min(wait, *place.start_at - setup_.clock->now());
    if (!place.process) continue;
    for (const int fd :
         {place.process->ended_fd(), place.process->out_fd(), place.process->err_fd()}) {
      if (fd >= 0) sources.push_back({fd, POLLIN, 0});
    }
  }
  if (orphans_until_) wait = kLookAtOrphansEvery;
  const auto wait_ms = std::chrono::ceil<Milliseconds>(std::max(wait, Nanoseconds(0)));
  poll(sources.data(), sources.size(), static_cast<int>(wait_ms.count()));
  clear_wake(wake_);
}

void Supervisor::take_events() {
  mesh_->turn(doing(), living());
  for (const RankEvent& event : mesh_->take_events()) obey(event);
  for (Notice& notice : mesh_->take_notices()) setup_.board->post(std::move(notice));
}

void Supervisor::obey(const RankEvent& event) {
  if (event.kind == RankEvent::Kind::stranger) {
    if (++strangers_ > kStrangersTold) return;
    setup_.log->warn("ranks", "a connection was refused", {{"why", event.why}});
    return;
  }
  const int64_t id = event.who.id;
  if (id < 0 || id >= static_cast<int64_t>(places_.size())) return;
  Place& place = places_[static_cast<size_t>(id)];
  // It is killed, and what it did before it noticed, alone as it was, is nobody's work.
  if (place.is_dismissed) return;
  switch (event.kind) {
    case RankEvent::Kind::entered: place.role = "joining"; return;
    case RankEvent::Kind::formed:
      place.rank = event.group.rank;
      place.role = event.group.rank == 0 ? "leader" : "follower";
      place.is_in_group = true;
      note_group(event.group, id);
      return;
    case RankEvent::Kind::stepped:
      place.failures = 0;
      begin_standby();
      return;
    case RankEvent::Kind::progress:
      place.progress = event.progress;
      step_ = std::max(step_, event.progress.step);
      return;
    case RankEvent::Kind::hung:
      setup_.log->warn("ranks", "a rank is hung and will be killed",
                       {{"rank", std::to_string(place.rank)},
                        {"pid", std::to_string(event.who.pid)},
                        {"why", event.why},
                        {"waited_for", event.progress.waits_for}});
      if (place.process && place.process->pid() == event.who.pid) place.process->kill();
      return;
    default: return;  // its process tells the rest by its end
  }
}

// Told of each member of this machine, by rank; it is new with the first.
void Supervisor::note_group(const RankGroup& group, int64_t id) {
  has_begun_ = true;
  if (group.generation <= generation_) return;
  generation_ = group.generation;
  leader_ = group.rank == 0 ? id : -1;
  leader_ended_at_.reset();
  setup_.log->info("ranks", "a group has formed",
                   {{"generation", std::to_string(group.generation)},
                    {"ranks", std::to_string(group.world)},
                    {"step", std::to_string(std::max<int64_t>(0, group.step))},
                    {"leader", group.members.empty() ? "" : group.members.front()}});
}

void Supervisor::pass_notices() {
  while (std::optional<Notice> advice = setup_.board->take_advice()) {
    mesh_->post(std::move(*advice), true);
  }
  const std::optional<Notice> notice = setup_.board->notice();
  if (mesh_->run_has_ended()) {
    for (Place& place : places_) place.start_at.reset();
  }
  if (!notice || std::exchange(is_leaving_, true)) return;
  const bool is_for_all = notice->kind == NoticeKind::stop;
  setup_.log->info("ranks",
                   is_for_all || !mesh_->is_meshed()
                       ? "notice: all ranks are told to save and leave"
                       : "notice: this machine's ranks are told to leave; the others go on",
                   {{"source", notice->source}});
  mesh_->post(*notice, is_for_all);
  for (Place& place : places_) place.start_at.reset();
}

Status Supervisor::look_at_processes() {
  for (Place& place : places_) {
    if (!place.process) continue;
    pass_output(place, false);
    const std::optional<int> code = place.process->try_wait();
    if (!code) continue;
    pass_output(place, true);
    place.process.reset();
    if (setup_.ends_orphans) orphans_until_ = setup_.clock->now() + kOrphansLimit;
    note_end(place, *code);
  }
  end_what_is_left();
  // Among others: more may come.
  if (mesh_->is_meshed()) return {};
  if (living() >= setup_.options.min || is_leaving_ || gave_up_ || living() == 0) return {};
  if (has_seen_end()) return {};
  gave_up_ = true;
  setup_.log->error(
      "ranks", "too few ranks are left; the others are told to save and leave",
      {{"left", std::to_string(living())}, {"ranks.min", std::to_string(setup_.options.min)}});
  mesh_->post(
      {.kind = NoticeKind::stop, .source = "too few ranks", .unix_ms = setup_.clock->unix_ms()},
      true);
  return {};
}

void Supervisor::note_end(Place& place, int code) {
  place.exit_code = code;
  place.role = "gone";
  if (place.is_dismissed) return;
  const bool is_final = code >= 0 && setup_.is_final(code);
  if (place.id == leader_ && (is_final || is_leaving_ || gave_up_)) {
    leader_ended_at_ = setup_.clock->now();
  }
  const std::string how = how_it_ended(code);
  if (is_leaving_ || gave_up_) return;
  if (is_final) {
    if (code != 0) {
      setup_.log->info("ranks", "a rank has left",
                       {{"rank", std::to_string(place.rank)}, {"how", how}});
    }
    return;
  }
  plan_restart(place, how);
}

void Supervisor::end_what_is_left() {
  if (!orphans_until_) return;
  std::vector<pid_t> kept = not_ours_;
  for (const Place& place : places_) {
    if (place.process) kept.push_back(place.process->pid());
  }
  if (end_orphans(kept)) {
    orphans_until_.reset();
  } else if (setup_.clock->now() > *orphans_until_) {
    orphans_until_.reset();
    setup_.log->warn("ranks",
                     "something that a dead rank had started does not die; look with `ps` "
                     "whether it waits for a disk that is gone");
  }
}

void Supervisor::plan_restart(Place& place, const std::string& how) {
  const int64_t failures = ++place.failures;
  if (failures > setup_.options.restarts) {
    setup_.log->error("ranks", "a rank is lost and not started again",
                      {{"rank", std::to_string(place.rank)},
                       {"how", how},
                       {"failures_without_a_step", std::to_string(failures)}});
    return;
  }
  place.role = "starting";
  const int64_t doublings = std::min(failures - 2, kPauseDoublings);
  const Nanoseconds first = has_standby() ? Nanoseconds(kStandbyPause) : Nanoseconds(0);
  const Nanoseconds pause = failures == 1 ? first : kRestartPause * (1LL << doublings);
  place.start_at = setup_.clock->now() + pause;
  setup_.log->warn("ranks", "a rank is lost and started again",
                   {{"rank", std::to_string(place.rank)}, {"how", how}});
}

void Supervisor::kill_stragglers() {
  if (mesh_->leader_has_ended() && !leader_ended_at_ && !has_killed_) {
    leader_ended_at_ = setup_.clock->now();
  }
  if (!leader_ended_at_ || setup_.clock->now() - *leader_ended_at_ < kStragglerLimit) return;
  for (const Place& place : places_) {
    if (!place.process) continue;
    setup_.log->warn("ranks", "a rank has not followed its leader and is killed",
                     {{"rank", std::to_string(place.rank)}});
    place.process->kill();
  }
  leader_ended_at_.reset();
  has_killed_ = true;
}

int64_t Supervisor::living() const {
  return std::ranges::count_if(places_,
                               [](const Place& place) { return place.process || place.start_at; });
}

}  // namespace tern
