#include "ranks/mesh.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/token.h"

namespace tern {
namespace {

constexpr Milliseconds kPeerLimit{2'000};
// Ranks that come from another hub come at once; this is for the one that does not.
constexpr std::chrono::seconds kFirstGrace{2};
constexpr size_t kPostedMax = 100;

}  // namespace

Mesh::Mesh(MeshSetup setup)
    : setup_(std::move(setup)),
      machine_(setup_.place ? setup_.place->machine : 0),
      election_({.machine = machine_,
                 .machines = setup_.place ? static_cast<int64_t>(setup_.place->peers.size()) : 1}),
      staffing_(setup_.place ? setup_.place->working : 1, setup_.options.spare_after) {}

Mesh::~Mesh() = default;

Result<std::unique_ptr<Mesh>> Mesh::start(MeshSetup setup) {
  std::unique_ptr<Mesh> mesh(new Mesh(std::move(setup)));
  RETURN_IF_ERROR(mesh->open());
  return mesh;
}

Status Mesh::open() {
  KvServer::Setup server{.address = setup_.options.address, .rules = rules()};
  if (setup_.place) {
    const std::string& own = setup_.place->peers[static_cast<size_t>(machine_)];
    ASSIGN_OR_RETURN(HostAndPort place, parse_address(own));
    server.address = std::move(place.host);
    server.port = place.port;
    server.machines = static_cast<int64_t>(setup_.place->peers.size());
    secret_ = setup_.place->secret;
  } else {
    ASSIGN_OR_RETURN(secret_, random_bytes(kSecretBytes));
  }
  interface_ = server.address;
  server.secret = secret_;
  server.on_event = [this](const RankEvent& event) { put_event(event); };
  server.on_peer = [this](PeerWord word) { put_word(std::move(word)); };
  server.clock = setup_.clock;
  ASSIGN_OR_RETURN(server_, KvServer::start(std::move(server)));
  server_->order([](RankHub& hub, Nanoseconds now) { hub.refuse_ranks(now); });
  return setup_.place ? open_links() : Status();
}

Status Mesh::open_links() {
  ASSIGN_OR_RETURN(relay_, Relay::start());
  for (int64_t other = 0; other < machine_; ++other) {
    PeerLink::Setup link{.machine = other,
                         .entry = {.address = setup_.place->peers[static_cast<size_t>(other)],
                                   .secret = secret_,
                                   .role = Role::supervisor,
                                   .who = {.machine = machine_, .id = 0, .pid = getpid()},
                                   .limit = kPeerLimit,
                                   .clock = setup_.clock},
                         .timeout = setup_.options.timeout,
                         .on_word = [this](PeerWord word) { put_word(std::move(word)); }};
    ASSIGN_OR_RETURN(auto started, PeerLink::start(std::move(link)));
    links_.push_back(std::move(started));
  }
  return {};
}

const std::string& Mesh::ranks_address() const {
  return relay_ ? relay_->address() : server_->address();
}

RosterRules Mesh::rules() const {
  RosterRules rules{.expected = setup_.options.count,
                    .min = setup_.options.min,
                    .max = setup_.options.max == 0 ? setup_.options.count : setup_.options.max,
                    .timeout = setup_.options.timeout,
                    .first_grace = setup_.place ? kFirstGrace : Nanoseconds(0)};
  if (setup_.has_boundaries) return rules;
  rules.boundary_grace = Nanoseconds(0);
  // What such a rank runs may hang, but not the rank itself: one that is late is uploading.
  rules.regroup_limit = rules.leave_limit;
  return rules;
}

void Mesh::put_word(PeerWord word) {
  {
    MutexLock lock(mutex_);
    words_.push_back(std::move(word));
  }
  setup_.on_news();
}

void Mesh::put_event(const RankEvent& event) {
  {
    MutexLock lock(mutex_);
    hub_events_.push_back(event);
  }
  setup_.on_news();
}

void Mesh::turn(PeerState::Doing doing, int64_t alive) {
  const Nanoseconds now = setup_.clock->now();
  std::vector<PeerWord> words;
  std::vector<RankEvent> events;
  {
    MutexLock lock(mutex_);
    words = std::exchange(words_, {});
    events = std::exchange(hub_events_, {});
  }
  for (const RankEvent& event : events) take_event(event);
  for (PeerWord& word : words) take_word(std::move(word));
  if (doing == PeerState::Doing::done) note_end(machine_);
  here_[machine_] = {
      .machine = machine_, .doing = doing, .alive = alive, .count = setup_.options.count};
  election_.doing(doing);
  election_.review(now);
  if (std::pair(election_.hub(), election_.term()) != followed_) change_hub();
  if (leads()) lead(now);
  should_work_ = should_work_ || (election_.hub() >= 0 && workers_.contains(machine_));
  tell_state(now);
}

void Mesh::take_word(PeerWord word) {
  const int64_t machine = word.machine;
  const bool is_hub = machine == election_.hub();
  switch (word.kind) {
    case PeerWord::Kind::came:
      gone_.erase(machine);
      send(machine, encode(told_));
      // What was told while the connection was lost is lost, too; it is heard once.
      for (const PeerNotice& notice : posted_) {
        if (is_hub) send(machine, encode(notice));
      }
      return;
    case PeerWord::Kind::went:
      here_.erase(machine);
      if (word.is_dead) gone_.insert(machine);
      election_.went(machine);
      if (machine == leader_) leader_is_dead_ = word.is_dead && leader_could_take_over_;
      return;
    case PeerWord::Kind::failed:
      setup_.log->warn("ranks", "another machine's supervisor does not let this one in",
                       {{"machine", std::to_string(machine)}, {"why", word.why}});
      return;
    case PeerWord::Kind::state:
      here_[machine] = word.state;
      election_.told(word.state);
      if (word.state.doing == PeerState::Doing::done) note_end(machine);
      if (word.state.hub != machine) return;
      // The word of a hub.
      if (word.state.run_has_ended) run_has_ended_ = true;
      if (leads()) return;
      if (word.state.leader >= 0) leader_ = word.state.leader;
      leader_could_take_over_ = are_most();
      if (here_.contains(leader_)) leader_is_dead_ = false;
      workers_ = word.state.workers;
      return;
    case PeerWord::Kind::event:
      if (is_hub) events_.push_back(std::move(word.event));
      return;
    case PeerWord::Kind::notice:
      if (leads()) {
        spread(word.notice);
      } else if (is_hub) {
        heard_.push_back(word.notice.notice);
      }
      return;
  }
}

void Mesh::note_end(int64_t machine) {
  run_has_ended_ = true;
  if (machine == leader_) leader_has_ended_ = true;
}

// Of a rank of the group that this hub serves.
void Mesh::take_event(const RankEvent& event) {
  if (event.kind == RankEvent::Kind::formed && event.group.rank == 0) {
    leader_ = event.who.machine;
    leader_could_take_over_ = event.group.may_take_over;
    leader_is_dead_ = false;
  }
  if (event.kind == RankEvent::Kind::stranger || event.who.machine == machine_) {
    events_.push_back(event);
  } else {
    send(event.who.machine, encode(event));
  }
}

void Mesh::change_hub() {
  followed_ = {election_.hub(), election_.term()};
  const int64_t hub = election_.hub();
  if (setup_.place) {
    const std::string who = hub < 0 ? "none" : std::to_string(hub);
    setup_.log->info("ranks", "the machine that is the hub",
                     {{"machine", who}, {"term", std::to_string(election_.term())}});
  }
  if (leads()) {
    staffing_.begin(here_);
    wish_ = {-1, -1, false};
    server_->order(
        [rules = rules()](RankHub& served, Nanoseconds now) { served.serve(rules, now); });
  } else {
    server_->order([](RankHub& served, Nanoseconds now) { served.refuse_ranks(now); });
  }
  if (relay_) {
    // Ranks come to a hub of this machine after it has heard that it is one: the order is first.
    relay_->aim(hub < 0 ? "" : setup_.place->peers[static_cast<size_t>(hub)]);
  }
  for (const PeerNotice& notice : posted_) hand_over(notice);
}

void Mesh::lead(Nanoseconds now) {
  if (!run_has_ended_) workers_ = staffing_.review(here_, now);
  int64_t expected = 0;
  int64_t max = 0;
  for (const auto& [machine, state] : here_) {
    const bool is_to_work = workers_.contains(machine);
    // One that has not heard that it is to work will start all of its ranks.
    const bool will_start = is_to_work && state.doing == PeerState::Doing::resting;
    expected += will_start ? state.count : state.alive;
    if (is_to_work || state.alive > 0) max += state.count;
  }
  if (setup_.options.max > 0) max = setup_.options.max;
  max = std::max<int64_t>(max, 1);
  const bool may_take_over = !setup_.place || leader_is_dead_ || are_most();
  const std::tuple wish(expected, max, may_take_over);
  if (std::exchange(wish_, wish) == wish) return;
  server_->order([=](RankHub& hub, Nanoseconds at) {
    hub.allow_take_over(may_take_over);
    hub.expect(expected, max, at);
  });
}

bool Mesh::are_most() const {
  const MeshPlace& place = *setup_.place;
  return tern::are_most(here_, gone_, place.working, static_cast<int64_t>(place.peers.size()));
}

void Mesh::post(Notice notice, bool to_all) {
  const PeerNotice told{.machine = to_all ? -1 : machine_, .notice = std::move(notice)};
  const auto is_same = [&](const PeerNotice& other) { return other.is_same(told); };
  if (std::ranges::any_of(posted_, is_same) || posted_.size() >= kPostedMax) return;
  posted_.push_back(told);
  hand_over(told);
}

void Mesh::hand_over(const PeerNotice& notice) {
  if (leads()) {
    spread(notice);
  } else if (election_.hub() >= 0) {
    send(election_.hub(), encode(notice));
  }
}

// As the hub: to the ranks, and to supervisors what ends their work, too.
void Mesh::spread(const PeerNotice& notice) {
  server_->order([notice](RankHub& hub, Nanoseconds) { hub.post(notice); });
  if (notice.machine >= 0 || notice.notice.kind != NoticeKind::stop) return;
  heard_.push_back(notice.notice);
  for (const auto& [machine, state] : here_) {
    if (machine != machine_) send(machine, encode(notice));
  }
}

void Mesh::tell_state(Nanoseconds now) {
  PeerState state = here_[machine_];
  state.hub = election_.hub();
  state.term = election_.term();
  state.run_has_ended = run_has_ended_;
  state.leader = leader_;
  if (leads()) state.workers = workers_;
  here_[machine_] = state;
  const bool is_due = now - told_at_ >= setup_.options.heartbeat;
  if (state == told_ && !is_due) return;
  told_ = state;
  told_at_ = now;
  const Bytes frame = encode(state);
  for (int64_t other = 0; setup_.place && other < static_cast<int64_t>(setup_.place->peers.size());
       ++other) {
    if (other != machine_) send(other, frame);
  }
}

void Mesh::send(int64_t machine, const Bytes& frame) {
  if (machine < machine_) {
    if (machine >= 0 && !links_.empty()) links_[static_cast<size_t>(machine)]->send(frame);
    return;
  }
  server_->order([machine, frame](RankHub& hub, Nanoseconds) { hub.send(machine, frame); });
}

bool Mesh::is_needed() const {
  if (!leads()) return false;
  return std::ranges::any_of(here_, [this](const auto& entry) {
    const bool is_here = entry.first != machine_;
    return is_here && (entry.second.alive > 0 || entry.second.doing == PeerState::Doing::resting);
  });
}

}  // namespace tern
