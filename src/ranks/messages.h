// The messages that are more than a few fields, and the proof that both sides have the secret.
#pragma once

#include <string>

#include "preempt/notice.h"
#include "ranks/rank_group.h"
#include "ranks/wire.h"

namespace tern {

// The run's secret and the nonces. random_bytes() makes them.
inline constexpr size_t kSecretBytes = 32;

// Settings are a page of text; names and sources are lines.
inline constexpr size_t kSettingsBytesMax = 64 << 10;
inline constexpr size_t kLineBytesMax = 1000;

struct Challenge {
  uint8_t version = kWireVersion;
  Bytes nonce;
};
Bytes encode(const Challenge& challenge);
Result<Challenge> decode_challenge(BytesView frame);

// Who connects. Part of the format.
enum class Role : uint8_t { rank = 0, supervisor = 1 };

struct Hello {
  uint8_t version = kWireVersion;
  Role role = Role::rank;
  Bytes nonce;
  RankIdentity who;
  Bytes proof;
};
Bytes encode(const Hello& hello);
Result<Hello> decode_hello(BytesView frame);

// HMAC-SHA256 with the secret over who speaks, both nonces, role and identity: nothing that one
// side says can be sent back to it, or said again on another connection. The first is of who
// connects.
Bytes hello_proof(BytesView secret, BytesView challenge, const Hello& hello);
Bytes welcome_proof(BytesView secret, BytesView challenge, const Hello& hello);
// In a time that does not tell where they differ.
bool same_proof(BytesView a, BytesView b);

// RankGroup's: in hexadecimal, and telling nothing of the secret.
std::string group_id_of(BytesView secret);

Bytes encode_welcome(BytesView proof);
Result<Bytes> decode_welcome(BytesView frame);

// Requests and answers. `request` is the number by which the answer is known.
Bytes encode_join(int64_t request, const RankJoin& join);
RankJoin read_join(FieldReader& fields);
Bytes encode_heartbeat(const RankProgress& progress);
RankProgress read_heartbeat(FieldReader& fields);

// An answer's value is what the request asks for, as a text: a number as FrameWriter's, a group...
Bytes encode_answer(int64_t request, BytesView value);
Bytes encode_answer(int64_t request, const Error& error);
struct Answer {
  int64_t request = 0;
  Result<Bytes> value = Bytes();
};
Result<Answer> decode_answer(BytesView frame);

Bytes encode_group(const RankGroup& group);  // a value, not a frame
Result<RankGroup> decode_group(BytesView value);
Bytes encode_number(int64_t number);  // likewise
Result<int64_t> decode_number(BytesView value);

Bytes encode(const Notice& notice);
Result<Notice> decode_notice(BytesView frame);

// "machine 0, rank 1 (pid 123)"
std::string describe_member(const RankIdentity& who, int64_t rank);

}  // namespace tern
