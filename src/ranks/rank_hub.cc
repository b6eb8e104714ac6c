#include "ranks/rank_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tern {
namespace {

// Told to ranks that come later; a run sees a handful.
constexpr size_t kNoticesMax = 100;

}  // namespace

RankHub::RankHub(Setup setup)
    : setup_(std::move(setup)), group_id_(group_id_of(setup_.secret)), roster_(setup_.rules) {}

uint64_t RankHub::open(Nanoseconds now) {
  const uint64_t id = ++last_id_;
  Connection& connection = connections_[id];
  connection.opened_at = now;
  Result<Bytes> nonce = setup_.nonce();
  if (!nonce) {
    condemn(id, nonce.error().message, now);
    return id;
  }
  connection.challenge = std::move(*nonce);
  connection.output = encode(Challenge{.nonce = connection.challenge});
  limit_strangers(now);
  return id;
}

void RankHub::receive(uint64_t id, BytesView bytes, Nanoseconds now) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  found->second.frames.add(bytes);
  while (true) {
    Result<std::optional<Bytes>> frame = found->second.frames.next();
    if (frame.has_value() && !frame->has_value()) break;
    const Status obeyed = frame.has_value() ? obey(id, **frame, now) : Status(frame.error());
    found = connections_.find(id);
    if (found == connections_.end()) return;  // it left, or was condemned on the way
    if (!obeyed.has_value()) {
      condemn(id, obeyed.error().message, now);
      return;
    }
    if (is_full(found->second)) return;  // what it asks for besides is not worth the memory
  }
  if (found->second.is_rank) roster_.heard(id, now);
}

void RankHub::close(uint64_t id, Nanoseconds now, End end) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Connection closed = std::move(found->second);
  connections_.erase(found);
  if (closed.is_peer) {
    tell_peer({.kind = PeerWord::Kind::went,
               .machine = closed.who.machine,
               .is_dead = end == End::closed});
  }
  if (!closed.is_rank) return;
  tell(RankEvent::Kind::lost, closed);
  roster_.lose(id, end == End::closed, now);
  act(now);
}

void RankHub::tick(Nanoseconds now) {
  std::vector<uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    const bool is_stranger = !connection.is_rank && !connection.is_peer;
    if (is_stranger && now - connection.opened_at > setup_.limits.hello) late.push_back(id);
  }
  drop_silent_peers(now);
  for (const uint64_t id : late) condemn(id, "it did not prove the secret in time", now);
  roster_.tick(now);
  act(now);
}

void RankHub::post(const PeerNotice& notice) {
  const auto is_same = [&](const PeerNotice& other) { return other.is_same(notice); };
  if (notices_.size() >= kNoticesMax || std::ranges::any_of(notices_, is_same)) return;
  notices_.push_back(notice);
  for (auto& [id, connection] : connections_) {
    const bool is_meant = notice.machine < 0 || notice.machine == connection.who.machine;
    if (connection.is_rank && is_meant) connection.output += encode(notice.notice);
  }
}

Bytes* RankHub::output(uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second.output;
}

std::vector<uint64_t> RankHub::take_condemned(Nanoseconds now) {
  // Here, after whatever has added to the outputs.
  std::vector<uint64_t> full;
  for (const auto& [id, connection] : connections_) {
    if (is_full(connection)) full.push_back(id);
  }
  for (const uint64_t id : full) condemn(id, "it does not read its answers", now);
  return std::exchange(condemned_, {});
}

void RankHub::condemn(uint64_t id, const std::string& why, Nanoseconds now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  condemned_.push_back(id);
  if (!found->second.is_rank && !found->second.is_peer) {
    tell(RankEvent::Kind::stranger, found->second, why);
    connections_.erase(found);
    return;
  }
  // What is sent away may well live on.
  close(id, now, End::cut);
}

Status RankHub::obey(uint64_t id, BytesView frame, Nanoseconds now) {
  Connection& connection = connections_.at(id);
  if (connection.is_peer) {
    ASSIGN_OR_RETURN(PeerWord word, decode_peer_word(connection.who.machine, frame));
    connection.heard_at = now;
    tell_peer(std::move(word));
    return {};
  }
  if (!connection.is_rank) return take_hello(id, frame, now);
  FieldReader fields(frame);
  const auto message = static_cast<Message>(fields.byte());
  if (message >= Message::set && message <= Message::join) {
    RETURN_IF_ERROR(take_request(id, message, fields, now));
  } else {
    RETURN_IF_ERROR(take_news(id, message, fields, now));
  }
  if (std::exchange(keys_grew_, false)) answer_waiting();
  return {};
}

Status RankHub::take_hello(uint64_t id, BytesView frame, Nanoseconds now) {
  ASSIGN_OR_RETURN(const Hello hello, decode_hello(frame));
  Connection& connection = connections_.at(id);
  if (hello.version != kWireVersion) {
    return fail(Code::invalid, fmt::format("it speaks version {} of the protocol, and this is "
                                           "version {}",
                                           hello.version, kWireVersion));
  }
  const Bytes proof = hello_proof(setup_.secret, connection.challenge, hello);
  if (hello.nonce.size() != kSecretBytes || !same_proof(proof, hello.proof)) {
    return fail(Code::permission_denied, "it has not the run's secret");
  }
  const Bytes welcome = encode_welcome(welcome_proof(setup_.secret, connection.challenge, hello));
  connection.frames.raise_limit(kFrameBytesMax);
  if (hello.role == Role::supervisor) {
    RETURN_IF_ERROR(let_in_peer(id, hello, now));
    connections_.at(id).output += welcome;
    tell_peer({.kind = PeerWord::Kind::came, .machine = hello.who.machine});
    return {};
  }
  if (!serves_) {  // it is nobody's fault, and nothing to tell
    condemned_.push_back(id);
    connections_.erase(id);
    return {};
  }
  connection.output += welcome;
  return let_in_rank(id, hello, now);
}

// Those that were started again before their old connection was seen to close.
void RankHub::condemn_same(const Hello& hello, Nanoseconds now) {
  std::vector<uint64_t> old;
  for (const auto& [other, known] : connections_) {
    const bool is_same_kind = hello.role == Role::rank ? known.is_rank : known.is_peer;
    const bool is_same = known.who.machine == hello.who.machine && known.who.id == hello.who.id;
    if (is_same_kind && is_same) old.push_back(other);
  }
  for (const uint64_t other : old) {
    condemned_.push_back(other);
    close(other, now);
  }
}

Status RankHub::let_in_peer(uint64_t id, const Hello& hello, Nanoseconds now) {
  if (hello.who.machine < 0 || hello.who.machine >= setup_.machines || hello.who.id != 0) {
    return fail(Code::invalid, "it is no machine of this run; give all the same TERN_PEERS");
  }
  condemn_same(hello, now);
  Connection& connection = connections_.at(id);
  connection.is_peer = true;
  connection.who = hello.who;
  connection.heard_at = now;
  return {};
}

Status RankHub::let_in_rank(uint64_t id, const Hello& hello, Nanoseconds now) {
  condemn_same(hello, now);
  const auto ranks =
      std::ranges::count_if(connections_, [](const auto& entry) { return entry.second.is_rank; });
  if (static_cast<size_t>(ranks) >= setup_.limits.ranks) {
    return fail(Code::exhausted, "there are too many ranks");
  }
  Connection& connection = connections_.at(id);
  connection.is_rank = true;
  connection.who = hello.who;
  for (const PeerNotice& notice : notices_) {
    const bool is_meant = notice.machine < 0 || notice.machine == hello.who.machine;
    if (is_meant) connection.output += encode(notice.notice);
  }
  tell(RankEvent::Kind::entered, connection);
  roster_.enter(id, hello.who, now);
  act(now);
  return {};
}

Status RankHub::take_news(uint64_t id, Message message, FieldReader& fields, Nanoseconds now) {
  Connection& connection = connections_.at(id);
  switch (message) {
    case Message::forget: {
      const int64_t request = fields.number();
      RETURN_IF_ERROR(fields.finish());
      std::erase_if(connection.waiting,
                    [request](const Waiting& waiting) { return waiting.request == request; });
      if (connection.join == request) {
        connection.join.reset();
        roster_.withdraw(id, now);
        act(now);
      }
      return {};
    }
    case Message::heartbeat: {
      RankProgress progress = read_heartbeat(fields);
      RETURN_IF_ERROR(fields.finish());
      connection.progress = std::move(progress);
      tell(RankEvent::Kind::progress, connection);
      if (!connection.has_stepped && connection.progress.step > connection.group.step &&
          connection.group.generation > 0) {
        connection.has_stepped = true;
        tell(RankEvent::Kind::stepped, connection);
      }
      return {};
    }
    case Message::leave: {
      const std::string why(fields.text(kLineBytesMax));
      RETURN_IF_ERROR(fields.finish());
      tell(RankEvent::Kind::left, connection, why);
      connection.is_rank = false;  // its end is no loss
      condemned_.push_back(id);
      connections_.erase(id);
      roster_.leave(id, now);
      act(now);
      return {};
    }
    default: return fail(Code::corrupt, "an unknown message");
  }
}

void RankHub::act(Nanoseconds now) {
  // Acting on one may lead to others.
  for (std::vector<RosterAction> actions = roster_.take_actions(); !actions.empty();
       actions = roster_.take_actions()) {
    for (const RosterAction& action : actions) act_on(action, now);
  }
}

void RankHub::act_on(const RosterAction& action, Nanoseconds now) {
  const auto found = connections_.find(action.member);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  switch (action.kind) {
    case RosterAction::Kind::formed:
      if (action.group.generation > std::exchange(keys_of_, action.group.generation)) {
        begin_generation();
      }
      connection.group = action.group;
      connection.group.group_id = group_id_;
      connection.is_over = false;
      connection.has_stepped = false;
      connection.output +=
          encode_answer(connection.join.value_or(0), encode_group(connection.group));
      connection.join.reset();
      tell(RankEvent::Kind::formed, connection);
      return;
    case RosterAction::Kind::over:
      connection.output += FrameWriter(Message::over).number(connection.group.generation).finish();
      connection.is_over = true;
      abort_waiting(connection);
      return;
    case RosterAction::Kind::change:
      connection.output += FrameWriter(Message::change).byte(action.is_wanted ? 1 : 0).finish();
      return;
    case RosterAction::Kind::refused:
      connection.output +=
          encode_answer(connection.join.value_or(0), fail(Code::failed_precondition, action.why));
      connection.join.reset();
      tell(RankEvent::Kind::refused, connection, action.why);
      return;
    case RosterAction::Kind::hung:
      tell(RankEvent::Kind::hung, connection, action.why);
      condemn(action.member, action.why, now);
      return;
  }
}

void RankHub::begin_generation() {
  keys_.clear();
  for (auto& [id, connection] : connections_) abort_waiting(connection);
}

void RankHub::abort_waiting(Connection& connection) {
  for (const Waiting& waiting : std::exchange(connection.waiting, {})) {
    connection.output +=
        encode_answer(waiting.request, fail(Code::aborted, "the generation is over; join again"));
  }
}

void RankHub::tell(RankEvent::Kind kind, const Connection& connection, std::string why) {
  if (!setup_.on_event) return;
  setup_.on_event({.kind = kind,
                   .who = connection.who,
                   .group = connection.group,
                   .progress = connection.progress,
                   .why = std::move(why)});
}

void RankHub::limit_strangers(Nanoseconds now) {
  std::vector<uint64_t> strangers;
  for (const auto& [id, connection] : connections_) {
    if (!connection.is_rank && !connection.is_peer) strangers.push_back(id);
  }
  // A rank needs a millisecond to prove itself; whoever is here the longest is the least likely
  // one.
  for (size_t i = 0; i + setup_.limits.strangers < strangers.size(); ++i) {
    condemn(strangers[i], "too many others without the secret came after it", now);
  }
}

}  // namespace tern
