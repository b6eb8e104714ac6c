#include "ranks/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/crypto.h"
#include "core/system_files.h"
#include "ranks/options.h"

namespace tern {
namespace {

constexpr Code kLastCode = Code::internal;
constexpr size_t kGroupIdDigits = 32;
// One a second since the beginning of time: what a rank tells beyond is no number of a generation,
// and the next one must be a number, too.
constexpr int64_t kGenerationMax = int64_t{1} << 60;

FrameWriter& write_identity(FrameWriter& frame, const RankIdentity& who) {
  return frame.number(who.machine).number(who.id).number(who.pid);
}

RankIdentity read_identity(FieldReader& fields) {
  RankIdentity who;
  who.machine = fields.number();
  who.id = fields.number();
  who.pid = fields.number();
  return who;
}

Bytes proof(std::string_view speaker, BytesView secret, BytesView challenge, const Hello& hello) {
  FrameWriter said(Message::hello);
  said.text(speaker).byte(hello.version).byte(static_cast<uint8_t>(hello.role));
  said.text(challenge).text(hello.nonce);
  const Digest digest = hmac_sha256(secret, write_identity(said, hello.who).finish());
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// REQUIRES: a frame, which is never empty.
Status expect(FieldReader& fields, Message message) {
  if (fields.byte() == static_cast<uint8_t>(message)) return {};
  return fail(Code::corrupt, "another message than the one that is due");
}

// What a text of the other side looks like in a log or a message.
std::string one_line(BytesView text) { return printable_line(text.substr(0, kLineBytesMax)); }

}  // namespace

Bytes encode(const Challenge& challenge) {
  return FrameWriter(Message::challenge).byte(challenge.version).text(challenge.nonce).finish();
}

Result<Challenge> decode_challenge(BytesView frame) {
  FieldReader fields(frame);
  RETURN_IF_ERROR(expect(fields, Message::challenge));
  Challenge challenge;
  challenge.version = fields.byte();
  challenge.nonce = Bytes(fields.text(kSecretBytes));
  RETURN_IF_ERROR(fields.finish());
  return challenge;
}

Bytes encode(const Hello& hello) {
  FrameWriter frame(Message::hello);
  frame.byte(hello.version).byte(static_cast<uint8_t>(hello.role)).text(hello.nonce);
  return write_identity(frame, hello.who).text(hello.proof).finish();
}

Result<Hello> decode_hello(BytesView frame) {
  FieldReader fields(frame);
  RETURN_IF_ERROR(expect(fields, Message::hello));
  Hello hello;
  hello.version = fields.byte();
  const uint8_t role = fields.byte();
  hello.role = static_cast<Role>(role);
  hello.nonce = Bytes(fields.text(kSecretBytes));
  hello.who = read_identity(fields);
  hello.proof = Bytes(fields.text(kSecretBytes));
  RETURN_IF_ERROR(fields.finish());
  if (role > static_cast<uint8_t>(Role::supervisor)) return fail(Code::corrupt, "an unknown role");
  return hello;
}

Bytes hello_proof(BytesView secret, BytesView challenge, const Hello& hello) {
  return proof("tern hello", secret, challenge, hello);
}

Bytes welcome_proof(BytesView secret, BytesView challenge, const Hello& hello) {
  return proof("tern welcome", secret, challenge, hello);
}

bool same_proof(BytesView a, BytesView b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

std::string group_id_of(BytesView secret) {
  return to_hex(hmac_sha256(secret, "tern group")).substr(0, kGroupIdDigits);
}

Bytes encode_welcome(BytesView proof) { return FrameWriter(Message::welcome).text(proof).finish(); }

Result<Bytes> decode_welcome(BytesView frame) {
  FieldReader fields(frame);
  RETURN_IF_ERROR(expect(fields, Message::welcome));
  Bytes proof(fields.text(kSecretBytes));
  RETURN_IF_ERROR(fields.finish());
  return proof;
}

Bytes encode_join(int64_t request, const RankJoin& join) {
  return FrameWriter(Message::join)
      .number(request)
      .number(join.step)
      .text(join.agreement)
      .text(BytesView(join.settings).substr(0, kSettingsBytesMax))
      .number(join.lease)
      .number(join.generation)
      .number(join.rank)
      .finish();
}

RankJoin read_join(FieldReader& fields) {
  RankJoin join;
  join.step = std::max<int64_t>(-1, fields.number());
  join.agreement = Bytes(fields.text(kLineBytesMax));
  join.settings = Bytes(fields.text(kSettingsBytesMax));
  join.lease = std::max<int64_t>(-1, fields.number());
  join.generation = std::clamp<int64_t>(fields.number(), -1, kGenerationMax);
  join.rank = std::max<int64_t>(-1, fields.number());
  return join;
}

Bytes encode_heartbeat(const RankProgress& progress) {
  return FrameWriter(Message::heartbeat)
      .number(progress.step)
      .real(progress.rate)
      .text(BytesView(progress.waits_for).substr(0, kLineBytesMax))
      .finish();
}

RankProgress read_heartbeat(FieldReader& fields) {
  RankProgress progress;
  progress.step = fields.number();
  progress.rate = fields.real();
  progress.waits_for = one_line(fields.text(kLineBytesMax));
  return progress;
}

Bytes encode_answer(int64_t request, BytesView value) {
  return FrameWriter(Message::answer).number(request).byte(1).text(value).finish();
}

Bytes encode_answer(int64_t request, const Error& error) {
  return FrameWriter(Message::answer)
      .number(request)
      .byte(0)
      .byte(static_cast<uint8_t>(error.code))
      .text(error.message)
      .finish();
}

Result<Answer> decode_answer(BytesView frame) {
  FieldReader fields(frame);
  RETURN_IF_ERROR(expect(fields, Message::answer));
  Answer answer;
  answer.request = fields.number();
  if (fields.byte() == 1) {
    answer.value = Bytes(fields.text());
  } else {
    const uint8_t code = fields.byte();
    const bool is_known = code <= static_cast<uint8_t>(kLastCode);
    answer.value =
        fail(is_known ? static_cast<Code>(code) : Code::internal, std::string(fields.text()));
  }
  RETURN_IF_ERROR(fields.finish());
  return answer;
}

Bytes encode_group(const RankGroup& group) {
  FrameWriter value(Message::join);
  value.number(group.generation).number(group.rank).number(group.world);
  value.number(group.source).number(group.step);
  value.text(group.group_id).byte(group.may_take_over ? 1 : 0);
  for (const std::string& member : group.members) value.text(member);
  return value.finish().substr(sizeof(uint32_t));
}

Result<RankGroup> decode_group(BytesView value) {
  FieldReader fields(value);
  RETURN_IF_ERROR(expect(fields, Message::join));
  RankGroup group;
  group.generation = fields.number();
  group.rank = fields.number();
  group.world = fields.number();
  group.source = fields.number();
  group.step = fields.number();
  group.group_id = Bytes(fields.text(kLineBytesMax));
  group.may_take_over = fields.byte() != 0;
  const bool is_possible = group.world >= 1 && group.world <= kRanksMax && group.rank >= 0 &&
                           group.rank < group.world && group.source < group.world;
  if (!is_possible) return fail(Code::corrupt, "a group that cannot be");
  for (int64_t i = 0; i < group.world; ++i) {
    group.members.emplace_back(fields.text(kLineBytesMax));
  }
  RETURN_IF_ERROR(fields.finish());
  return group;
}

Bytes encode_number(int64_t number) {
  return FrameWriter(Message::answer).number(number).finish().substr(sizeof(uint32_t) + 1);
}

Result<int64_t> decode_number(BytesView value) {
  FieldReader fields(value);
  const int64_t number = fields.number();
  RETURN_IF_ERROR(fields.finish());
  return number;
}

Bytes encode(const Notice& notice) {
  return FrameWriter(Message::notice)
      .byte(static_cast<uint8_t>(notice.kind))
      .text(BytesView(notice.source).substr(0, kLineBytesMax))
      .number(notice.unix_ms)
      .number(notice.deadline_unix_ms)
      .text(BytesView(notice.id).substr(0, kLineBytesMax))
      .finish();
}

Result<Notice> decode_notice(BytesView frame) {
  FieldReader fields(frame);
  RETURN_IF_ERROR(expect(fields, Message::notice));
  const uint8_t kind = fields.byte();
  Notice notice;
  notice.source = one_line(fields.text(kLineBytesMax));
  notice.unix_ms = fields.number();
  notice.deadline_unix_ms = fields.number();
  notice.id = Bytes(fields.text(kLineBytesMax));
  RETURN_IF_ERROR(fields.finish());
  if (kind > static_cast<uint8_t>(NoticeKind::advice)) {
    return fail(Code::corrupt, "a notice of an unknown kind");
  }
  notice.kind = static_cast<NoticeKind>(kind);
  return notice;
}

std::string describe_member(const RankIdentity& who, int64_t rank) {
  return fmt::format("machine {}, rank {} (pid {})", who.machine, rank, who.pid);
}

}  // namespace tern
