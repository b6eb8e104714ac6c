// The bytes between a supervisor and its ranks: frames, and the fields in them. What they mean is
// in docs/format_ranks.md; messages.h has those that are more than a few fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

inline constexpr uint8_t kWireVersion = 2;
// A whole message. Whoever has not proved the secret gets to send no more than a hello needs.
inline constexpr size_t kFrameBytesMax = 1 << 20;
inline constexpr size_t kStrangerFrameBytesMax = 256;

// Part of the format: never renumber, only append.
enum class Message : uint8_t {
  challenge = 1,  // supervisor: version, its nonce
  hello = 2,      // rank: version, role, its nonce, who it is, the proof that it has the secret
  welcome = 3,    // supervisor: the same proof the other way round

  // Requests of a rank; all begin with a number by which the answer is known.
  set = 16,
  get = 17,  // answered when the key is there
  add = 18,
  compare_set = 19,
  remove = 20,
  check = 21,
  wait = 22,  // answered when all keys are there
  count = 23,
  join = 24,  // answered when a generation has formed

  // What a rank tells.
  forget = 32,  // a request that is not waited for any longer
  heartbeat = 33,
  leave = 34,

  // What the supervisor tells.
  answer = 48,
  over = 49,    // the generation is over
  change = 50,  // whether another rank waits to be let in
  notice = 51,

  // What supervisors of one run tell each other; peer_messages.h.
  peer_state = 64,
  peer_event = 65,   // from the hub: of a rank of that machine
  peer_notice = 66,  // to the hub, which passes it on
};

// Puts one frame together. Numbers are little-endian, texts have their length before them.
class FrameWriter {
 public:
  explicit FrameWriter(Message message);

  FrameWriter& byte(uint8_t value);
  FrameWriter& number(int64_t value);
  FrameWriter& real(double value);
  FrameWriter& text(BytesView value);

  // The frame with its length in front. Once, last.
  Bytes finish();

 private:
  Bytes bytes_;
};

// Takes fields from a frame, or from a part of one. Once something is missing every later field is
// empty, and finish() says so: check that before the values are used.
class FieldReader {
 public:
  explicit FieldReader(BytesView bytes) : rest_(bytes) {}

  uint8_t byte();
  int64_t number();
  double real();
  // At most `limit` bytes.
  BytesView text(size_t limit = kFrameBytesMax);

  // Everything that was asked for was there.
  bool has_failed() const { return has_failed_; }
  // `corrupt` unless that, and nothing is left.
  Status finish() const;

 private:
  BytesView take(size_t count);

  BytesView rest_;
  bool has_failed_ = false;
};

// Finds the frames in what arrives in pieces. Takes no memory for bytes that have not come.
class FrameReader {
 public:
  explicit FrameReader(size_t limit) : limit_(limit) {}

  void raise_limit(size_t limit) { limit_ = limit; }
  void add(BytesView bytes) { bytes_.append(bytes); }
  // The next whole frame without its length, nothing if it is not all there yet. `corrupt` for one
  // that is empty or longer than the limit; the stream cannot be read any further then.
  Result<std::optional<Bytes>> next();
  bool has_part() const { return used_ < bytes_.size(); }

 private:
  size_t limit_;
  Bytes bytes_;
  size_t used_ = 0;  // of bytes_, from its beginning
};

}  // namespace tern
