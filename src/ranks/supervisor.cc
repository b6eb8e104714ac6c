#include "ranks/supervisor.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/token.h"
#include "ranks/messages.h"
#include "ranks/rank_link.h"

namespace tern {
namespace {

// For advice, which wakes nobody, and clocks.
constexpr Milliseconds kLookEvery{500};
// Ranks that are still there so long after the leader has ended are stuck.
constexpr std::chrono::seconds kStragglerLimit{60};
// A rank that dies again and again is given time: 0.25 s, 0.5 s, ... 8 s.
constexpr Milliseconds kRestartPause{250};
constexpr int64_t kPauseDoublings = 5;
// Strangers at the port that are told of.
constexpr int64_t kStrangersTold = 3;

std::string how_it_ended(int code) {
  if (code >= 0) return fmt::format("ended with exit code {}", code);
  return fmt::format("was killed by signal {} ({})", -code, strsignal(-code));
}

RosterRules rules_of(const RanksOptions& options) {
  return {.expected = options.count,
          .min = options.min,
          .max = options.max == 0 ? options.count : options.max,
          .timeout = options.timeout};
}

}  // namespace

Supervisor::Supervisor(SupervisorSetup setup) : setup_(std::move(setup)) {}

Supervisor::~Supervisor() {
  places_.clear();  // they end before what they talk to
}

Result<int> Supervisor::run() {
  // A parent that ignores its children's ends leaves us without their exit codes.
  std::signal(SIGCHLD, SIG_DFL);
  ASSIGN_OR_RETURN(secret_, random_bytes(kSecretBytes));
  ASSIGN_OR_RETURN(wake_, make_wake());
  ASSIGN_OR_RETURN(KvServer::Setup server, server_setup());
  ASSIGN_OR_RETURN(server_, KvServer::start(std::move(server)));
  const std::stop_callback on_notice(setup_.board->stop_token(), [this] { wake(wake_); });
  for (int64_t id = 0; id < setup_.options.count; ++id) {
    places_.push_back({.id = id, .start_at = setup_.clock->now(), .rank = id});
  }
  while (living() > 0) {
    RETURN_IF_ERROR(start_those_due());
    wait_for_news();
    take_events();
    pass_notices();
    RETURN_IF_ERROR(look_at_processes());
    kill_stragglers();
  }
  take_events();
  return result();
}

Result<KvServer::Setup> Supervisor::server_setup() {
  return KvServer::Setup{.address = setup_.options.address,
                         .secret = secret_,
                         .rules = rules_of(setup_.options),
                         .on_event =
                             [this](const RankEvent& event) {
                               MutexLock lock(mutex_);
                               events_.push_back(event);
                               wake(wake_);
                             },
                         .clock = setup_.clock};
}

Status Supervisor::start(Place& place) {
  place.start_at.reset();
  place.exit_code.reset();
  RankCommand command = setup_.command(has_begun_);
  RankStart start{.program = setup_.program, .secret = secret_};
  start.arguments = {fmt::format("tern-train: {} rank {}", setup_.run, place.id)};
  std::ranges::move(command.arguments, std::back_inserter(start.arguments));
  start.environment = std::move(command.environment);
  const std::vector<std::pair<const char*, std::string>> variables = {
      {kRankAddressVariable, server_->address()},
      {kRankIdVariable, std::to_string(place.id)},
      {kRankMachineVariable, "0"},
      {kRankInterfaceVariable, setup_.options.address},
      {kRankHeartbeatVariable, std::to_string(setup_.options.heartbeat.count())}};
  for (const auto& [name, value] : variables) {
    start.environment.push_back(fmt::format("{}={}", name, value));
  }
  ASSIGN_OR_RETURN(RankProcess process, RankProcess::start(start));
  place.process.emplace(std::move(process));
  return {};
}

Status Supervisor::start_those_due() {
  for (Place& place : places_) {
    if (!place.start_at || *place.start_at > setup_.clock->now()) continue;
    const Status started = start(place);
    if (started.has_value()) continue;
    if (!has_begun_) return started.error();
    plan_restart(place, started.error().message);
  }
  return {};
}

void Supervisor::wait_for_news() {
  Nanoseconds wait = kLookEvery;
  std::vector<pollfd> sources = {{wake_.get(), POLLIN, 0}};
  for (const Place& place : places_) {
    if (place.start_at) wait = std::min(wait, *place.start_at - setup_.clock->now());
    if (!place.process) continue;
    for (const int fd :
         {place.process->ended_fd(), place.process->out_fd(), place.process->err_fd()}) {
      if (fd >= 0) sources.push_back({fd, POLLIN, 0});
    }
  }
  const auto wait_ms = std::chrono::ceil<Milliseconds>(std::max(wait, Nanoseconds(0)));
  poll(sources.data(), sources.size(), static_cast<int>(wait_ms.count()));
  clear_wake(wake_);
}

void Supervisor::take_events() {
  std::vector<RankEvent> events;
  {
    MutexLock lock(mutex_);
    events = std::exchange(events_, {});
  }
  for (const RankEvent& event : events) obey(event);
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
  switch (event.kind) {
    case RankEvent::Kind::formed:
      place.rank = event.group.rank;
      if (event.group.rank != 0) return;
      has_begun_ = true;
      leader_ = id;
      leader_ended_at_.reset();
      setup_.log->info("ranks", "a group has formed",
                       {{"generation", std::to_string(event.group.generation)},
                        {"ranks", std::to_string(event.group.world)},
                        {"step", std::to_string(std::max<int64_t>(0, event.group.step))},
                        {"leader", event.group.members.front()}});
      return;
    case RankEvent::Kind::stepped: place.failures = 0; return;
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

void Supervisor::pass_notices() {
  while (const std::optional<Notice> advice = setup_.board->take_advice()) server_->post(*advice);
  const std::optional<Notice> notice = setup_.board->notice();
  if (!notice || std::exchange(is_leaving_, true)) return;
  setup_.log->info("ranks", "notice: all ranks are told to save and leave",
                   {{"source", notice->source}});
  server_->post(*notice);
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
    note_end(place, *code);
  }
  if (living() >= setup_.options.min || is_leaving_ || gave_up_ || living() == 0) return {};
  const bool has_ended_well = std::ranges::any_of(
      places_, [](const Place& place) { return place.exit_code.value_or(-1) == 0; });
  if (has_ended_well) return {};
  gave_up_ = true;
  setup_.log->error(
      "ranks", "too few ranks are left; the others are told to save and leave",
      {{"left", std::to_string(living())}, {"ranks.min", std::to_string(setup_.options.min)}});
  server_->post(
      {.kind = NoticeKind::stop, .source = "too few ranks", .unix_ms = setup_.clock->unix_ms()});
  return {};
}

void Supervisor::note_end(Place& place, int code) {
  place.exit_code = code;
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
    server_->expect(living());
    return;
  }
  plan_restart(place, how);
}

void Supervisor::plan_restart(Place& place, const std::string& how) {
  const int64_t failures = ++place.failures;
  if (failures > setup_.options.restarts) {
    setup_.log->error("ranks", "a rank is lost and not started again",
                      {{"rank", std::to_string(place.rank)},
                       {"how", how},
                       {"failures_without_a_step", std::to_string(failures)}});
    server_->expect(living());
    return;
  }
  const int64_t doublings = std::min(failures - 2, kPauseDoublings);
  const Nanoseconds pause = failures == 1 ? Nanoseconds(0) : kRestartPause * (1LL << doublings);
  place.start_at = setup_.clock->now() + pause;
  setup_.log->warn("ranks", "a rank is lost and started again",
                   {{"rank", std::to_string(place.rank)}, {"how", how}});
}

std::string Supervisor::prefix_of(const Place& place) const {
  return place.id == leader_ ? "" : fmt::format("[rank {}] ", place.rank);
}

void Supervisor::pass_output(Place& place, bool is_the_end) {
  const std::string prefix = prefix_of(place);
  const auto to_err = [&](std::string_view line) {
    setup_.err(prefix.empty() ? std::string(line) : prefix + std::string(line));
  };
  // What others than the leader print is no answer of the program.
  const Lines::Sink to_out = prefix.empty() ? setup_.out : Lines::Sink(to_err);
  if (is_the_end) {
    place.process->finish_output(to_out, to_err);
  } else {
    place.process->read_output(to_out, to_err);
  }
}

void Supervisor::kill_stragglers() {
  if (!leader_ended_at_ || setup_.clock->now() - *leader_ended_at_ < kStragglerLimit) return;
  for (const Place& place : places_) {
    if (!place.process) continue;
    setup_.log->warn("ranks", "a rank has not followed its leader and is killed",
                     {{"rank", std::to_string(place.rank)}});
    place.process->kill();
  }
  leader_ended_at_.reset();
}

int64_t Supervisor::living() const {
  return std::ranges::count_if(places_,
                               [](const Place& place) { return place.process || place.start_at; });
}

Result<int> Supervisor::result() const {
  if (gave_up_) {
    return fail(Code::unavailable,
                fmt::format("fewer than {} ranks are left (ranks.min); what they said is above. "
                            "Start the run again to go on, or lower ranks.min",
                            setup_.options.min));
  }
  const std::optional<int> code = places_[static_cast<size_t>(leader_)].exit_code;
  if (code && *code >= 0) return *code;
  return fail(Code::unavailable,
              fmt::format("rank 0 {}; what it said is above. Start the run again to go on",
                          code ? how_it_ended(*code) : "was not started"));
}

}  // namespace tern
