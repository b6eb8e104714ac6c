#include "ranks/peer_messages.h"

#include <utility>

#include "core/system_files.h"
#include "ranks/messages.h"
#include "ranks/options.h"

namespace tern {
namespace {

std::string line_of(FieldReader& fields) { return printable_line(fields.text(kLineBytesMax)); }

BytesView cut(const std::string& text) { return BytesView(text).substr(0, kLineBytesMax); }

Result<PeerState> read_state(FieldReader& fields, int64_t machine) {
  PeerState state{.machine = machine};
  state.term = fields.number();
  state.hub = fields.number();
  const uint8_t doing = fields.byte();
  state.doing = static_cast<PeerState::Doing>(doing);
  state.alive = fields.number();
  state.count = fields.number();
  state.run_has_ended = fields.byte() != 0;
  state.leader = fields.number();
  const int64_t workers = fields.number();
  const auto is_number = [](int64_t number) { return number >= 0 && number <= kRanksMax; };
  const auto is_machine = [](int64_t number) { return number >= -1 && number < kMachinesMax; };
  const bool is_possible = doing <= static_cast<uint8_t>(PeerState::Doing::done) &&
                           is_number(state.alive) && is_number(state.count) &&
                           is_machine(state.hub) && is_machine(state.leader) && state.term >= 0 &&
                           state.term < INT64_MAX / 2 && workers >= 0 && workers <= kMachinesMax;
  if (!is_possible) return fail(Code::corrupt, "a state that cannot be");
  for (int64_t i = 0; i < workers; ++i) state.workers.insert(fields.number());
  RETURN_IF_ERROR(fields.finish());
  return state;
}

Result<RankEvent> read_event(FieldReader& fields) {
  RankEvent event;
  const uint8_t kind = fields.byte();
  event.kind = static_cast<RankEvent::Kind>(kind);
  event.who = {.machine = fields.number(), .id = fields.number(), .pid = fields.number()};
  event.group.generation = fields.number();
  event.group.rank = fields.number();
  event.group.world = fields.number();
  event.group.step = fields.number();
  event.group.members = {line_of(fields)};
  event.progress.step = fields.number();
  event.progress.rate = fields.real();
  event.progress.waits_for = line_of(fields);
  event.why = line_of(fields);
  RETURN_IF_ERROR(fields.finish());
  if (kind > static_cast<uint8_t>(RankEvent::Kind::progress)) {
    return fail(Code::corrupt, "an event of an unknown kind");
  }
  return event;
}

}  // namespace

Bytes encode(const PeerState& state) {
  FrameWriter frame(Message::peer_state);
  frame.number(state.term).number(state.hub).byte(static_cast<uint8_t>(state.doing));
  frame.number(state.alive).number(state.count).byte(state.run_has_ended ? 1 : 0);
  frame.number(state.leader).number(static_cast<int64_t>(state.workers.size()));
  for (const int64_t machine : state.workers) frame.number(machine);
  return frame.finish();
}

Bytes encode(const PeerNotice& notice) {
  // Its frame as a rank gets it, without the length.
  const Bytes told = encode(notice.notice).substr(sizeof(uint32_t));
  return FrameWriter(Message::peer_notice).number(notice.machine).text(told).finish();
}

Bytes encode(const RankEvent& event) {
  FrameWriter frame(Message::peer_event);
  frame.byte(static_cast<uint8_t>(event.kind));
  frame.number(event.who.machine).number(event.who.id).number(event.who.pid);
  frame.number(event.group.generation).number(event.group.rank).number(event.group.world);
  frame.number(event.group.step);
  frame.text(event.group.members.empty() ? BytesView() : cut(event.group.members.front()));
  frame.number(event.progress.step).real(event.progress.rate);
  return frame.text(cut(event.progress.waits_for)).text(cut(event.why)).finish();
}

Result<PeerWord> decode_peer_word(int64_t machine, BytesView frame) {
  FieldReader fields(frame);
  PeerWord word{.machine = machine};
  const auto message = static_cast<Message>(fields.byte());
  if (message == Message::peer_state) {
    word.kind = PeerWord::Kind::state;
    ASSIGN_OR_RETURN(word.state, read_state(fields, machine));
    return word;
  }
  if (message == Message::peer_event) {
    word.kind = PeerWord::Kind::event;
    ASSIGN_OR_RETURN(word.event, read_event(fields));
    return word;
  }
  if (message != Message::peer_notice) {
    return fail(Code::corrupt, "what no supervisor says to another");
  }
  word.kind = PeerWord::Kind::notice;
  word.notice.machine = fields.number();
  const BytesView told = fields.text();
  RETURN_IF_ERROR(fields.finish());
  if (told.empty()) return fail(Code::corrupt, "a notice of nothing");
  ASSIGN_OR_RETURN(word.notice.notice, decode_notice(told));
  return word;
}

}  // namespace tern
