// The protocol without sockets: what a peer may send, and what comes of it.
#include "ranks/rank_hub.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr RosterRules kTwo{.expected = 2, .min = 1, .max = 2};

class RankHubTest : public testing::Test {
 protected:
  RankHub::Setup setup() {
    return {.secret = "secret",
            .rules = kTwo,
            .limits = {.strangers = 3, .keys_waited_for = 5, .output_bytes = 2U << 20U},
            .nonce = []() -> Result<Bytes> { return Bytes(kSecretBytes, 'c'); },
            .on_event = [this](const RankEvent& event) { events_.push_back(event); }};
  }

  Bytes hello(int64_t id, const Bytes& secret = "secret", uint8_t version = kWireVersion) {
    Hello said{.version = version, .nonce = Bytes(kSecretBytes, 'n'), .who = {0, id, 100 + id}};
    said.proof = hello_proof(secret, Bytes(kSecretBytes, 'c'), said);
    return encode(said);
  }

  // A connection that has proved the secret, its output taken.
  uint64_t rank(int64_t id) {
    const uint64_t connection = hub_.open(now_);
    hub_.receive(connection, hello(id), now_);
    take(connection);
    return connection;
  }

  // The frames that were sent to it since.
  std::vector<Bytes> take(uint64_t connection) {
    std::vector<Bytes> frames;
    Bytes* const output = hub_.output(connection);
    if (output == nullptr) return frames;
    FrameReader reader(kFrameBytesMax);
    reader.add(*output);
    output->clear();
    for (auto frame = reader.next(); frame && *frame; frame = reader.next()) {
      frames.push_back(**frame);
    }
    return frames;
  }
  std::vector<int> kinds(uint64_t connection) {
    std::vector<int> kinds;
    for (const Bytes& frame : take(connection)) kinds.push_back(frame[0]);
    return kinds;
  }
  std::string told() const { return events_.empty() ? "" : events_.back().why; }

  std::vector<RankEvent> events_;
  RankHub hub_{setup()};
  Nanoseconds now_{0};
};

TEST_F(RankHubTest, AStrangerGetsAChallengeAndNothingElse) {
  const std::vector<std::pair<std::string, Bytes>> said = {
      {"another secret", hello(1, "Secret")},
      {"another version", hello(1, "secret", kWireVersion + 1)},
      {"a rank's request", FrameWriter(Message::count).number(1).finish()},
      {"the challenge itself", encode(Challenge{.nonce = Bytes(kSecretBytes, 'c')})},
      {"a long frame", FrameWriter(Message::hello).text(Bytes(300, 'x')).finish()},
      {"an empty frame", Bytes(4, '\0')},
      {"another protocol", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {"a short hello", FrameWriter(Message::hello).byte(kWireVersion).finish()},
  };
  for (const auto& [what, bytes] : said) {
    const uint64_t connection = hub_.open(now_);
    EXPECT_THAT(kinds(connection), ElementsAre(static_cast<int>(Message::challenge))) << what;
    hub_.receive(connection, bytes, now_);
    EXPECT_EQ(hub_.output(connection), nullptr) << what;
    EXPECT_THAT(hub_.take_condemned(now_), ElementsAre(connection)) << what;
    EXPECT_EQ(events_.back().kind, RankEvent::Kind::stranger) << what;
  }
}

TEST_F(RankHubTest, WhoeverIsSlowToProveTheSecretIsSentAway) {
  const uint64_t slow = hub_.open(now_);
  const uint64_t good = rank(0);
  const Bytes bytes = hello(1);
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    now_ += Milliseconds(100);
    hub_.receive(slow, bytes.substr(i, 1), now_);
    hub_.receive(good, encode_heartbeat({}), now_);
    hub_.tick(now_);
  }
  EXPECT_EQ(hub_.output(slow), nullptr);
  EXPECT_NE(hub_.output(good), nullptr);
  EXPECT_THAT(hub_.take_condemned(now_), ElementsAre(slow));
}

TEST_F(RankHubTest, OfTooManyStrangersTheOldestGoes) {
  const uint64_t good = rank(0);
  std::vector<uint64_t> strangers;
  for (int i = 0; i < 5; ++i) strangers.push_back(hub_.open(now_));
  EXPECT_THAT(hub_.take_condemned(now_), ElementsAre(strangers[0], strangers[1]));
  EXPECT_NE(hub_.output(good), nullptr);
  hub_.receive(strangers[4], hello(1), now_);
  EXPECT_THAT(kinds(strangers[4]), testing::Contains(static_cast<int>(Message::welcome)));
}

TEST_F(RankHubTest, ARankThatSaysWhatCannotBeIsClosedAndLost) {
  const std::vector<std::pair<std::string, Bytes>> said = {
      {"an unknown message", FrameWriter(static_cast<Message>(200)).finish()},
      {"a message of the supervisor", FrameWriter(Message::over).number(1).finish()},
      {"a second hello", hello(1)},
      {"a set without a value", FrameWriter(Message::set).number(1).text("k").finish()},
      {"keys that are not there", FrameWriter(Message::wait).number(1).number(1 << 30).finish()},
      {"fewer keys than none", FrameWriter(Message::check).number(1).number(-1).finish()},
      {"too many keys", FrameWriter(Message::wait)
                            .number(1)
                            .number(6)
                            .text("")
                            .text("")
                            .text("")
                            .text("")
                            .text("")
                            .text("")
                            .finish()},
      {"two joins", encode_join(1, {}) + encode_join(2, {})},
      {"an oversized frame", Bytes("\xff\xff\xff\x7f", 4)},
  };
  for (const auto& [what, bytes] : said) {
    const uint64_t other = rank(0);
    const uint64_t bad = rank(1);
    hub_.receive(bad, bytes, now_);
    EXPECT_EQ(hub_.output(bad), nullptr) << what;
    EXPECT_NE(hub_.output(other), nullptr) << what;
    EXPECT_EQ(events_.back().kind, RankEvent::Kind::lost) << what;
    hub_.close(other, now_);
    hub_.take_condemned(now_);
  }
}

TEST_F(RankHubTest, ARankThatDoesNotReadItsAnswersIsClosedAndTakesLittleMemory) {
  const uint64_t greedy = rank(0);
  hub_.receive(greedy,
               FrameWriter(Message::set).number(1).text("k").text(Bytes(1 << 19, 'x')).finish(),
               now_);
  Bytes questions;
  for (int i = 0; i < 1000; ++i) {
    questions += FrameWriter(Message::get).number(2 + i).text("k").finish();
  }
  hub_.receive(greedy, questions, now_);
  EXPECT_LT(hub_.output(greedy)->size(), 3U << 20U);
  EXPECT_THAT(hub_.take_condemned(now_), ElementsAre(greedy));
  EXPECT_EQ(hub_.output(greedy), nullptr);
}

TEST_F(RankHubTest, WaitingIsAnsweredOnceAndOnlyWithAllKeys) {
  const uint64_t waits = rank(0);
  const uint64_t sets = rank(1);
  hub_.receive(waits, FrameWriter(Message::wait).number(7).number(2).text("a").text("b").finish(),
               now_);
  hub_.receive(sets, FrameWriter(Message::set).number(1).text("a").text("").finish(), now_);
  EXPECT_THAT(take(waits), IsEmpty());
  hub_.receive(sets, FrameWriter(Message::add).number(2).text("b").number(1).finish(), now_);
  const std::vector<Bytes> frames = take(waits);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(decode_answer(frames[0])->request, 7);
  hub_.receive(sets, FrameWriter(Message::set).number(3).text("a").text("again").finish(), now_);
  EXPECT_THAT(take(waits), IsEmpty());
}

TEST_F(RankHubTest, WaitingEndsWithTheGenerationAlsoWhatBeginsAfterIt) {
  const uint64_t stays = rank(0);
  const uint64_t goes = rank(1);
  hub_.receive(stays, encode_join(1, {}), now_);
  hub_.receive(goes, encode_join(1, {}), now_);
  take(stays);
  const auto wait = [&](int64_t request) {
    hub_.receive(stays, FrameWriter(Message::get).number(request).text("k").finish(), now_);
  };
  const auto is_aborted = [](const Bytes& frame) {
    const auto answer = decode_answer(frame);
    return answer && !answer->value && answer->value.error().code == Code::aborted;
  };
  wait(2);
  EXPECT_THAT(take(stays), IsEmpty());
  hub_.close(goes, now_);
  std::vector<Bytes> frames = take(stays);
  ASSERT_EQ(frames.size(), 2U);  // the end, and the answer
  EXPECT_TRUE(is_aborted(frames[1]));
  wait(3);
  frames = take(stays);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_TRUE(is_aborted(frames[0]));
  hub_.receive(stays, encode_join(4, {.step = 1}), now_);
  take(stays);
  wait(5);
  EXPECT_THAT(take(stays), IsEmpty()) << "it is in a generation again";
}

TEST_F(RankHubTest, WhatIsForgottenIsNotAnswered) {
  const uint64_t waits = rank(0);
  hub_.receive(waits,
               FrameWriter(Message::get).number(7).text("a").finish() +
                   FrameWriter(Message::forget).number(7).finish() +
                   FrameWriter(Message::set).number(8).text("a").text("").finish(),
               now_);
  const std::vector<Bytes> frames = take(waits);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(decode_answer(frames[0])->request, 8);
}

TEST_F(RankHubTest, AHungRankIsToldOfWithWhatItWaitedFor) {
  const uint64_t good = rank(0);
  const uint64_t hung = rank(1);
  hub_.receive(hung, encode_heartbeat({.step = 3, .rate = 1, .waits_for = "batch\n 7"}), now_);
  for (int i = 0; i < 120; ++i) {
    now_ += Milliseconds(100);
    hub_.receive(good, encode_heartbeat({}), now_);
    hub_.tick(now_);
  }
  EXPECT_THAT(hub_.take_condemned(now_), ElementsAre(hung));
  const auto told = std::ranges::find(events_, RankEvent::Kind::hung, &RankEvent::kind);
  ASSERT_NE(told, events_.end());
  EXPECT_EQ(told->who.id, 1);
  EXPECT_EQ(told->progress.waits_for, "batch");
  EXPECT_NE(hub_.output(good), nullptr);
}

TEST_F(RankHubTest, AStepOfItsOwnIsToldOncePerGeneration) {
  const uint64_t one = rank(0);
  hub_.receive(one, encode_join(1, {.step = 5}), now_);
  const auto steps = [this] {
    return std::ranges::count(events_, RankEvent::Kind::stepped, &RankEvent::kind);
  };
  hub_.receive(one, encode_heartbeat({.step = 5}), now_);
  EXPECT_EQ(steps(), 0);
  hub_.receive(one, encode_heartbeat({.step = 6}), now_);
  hub_.receive(one, encode_heartbeat({.step = 7}), now_);
  EXPECT_EQ(steps(), 1);
  hub_.receive(one, encode_join(2, {.step = 7}), now_);
  hub_.receive(one, encode_heartbeat({.step = 8}), now_);
  EXPECT_EQ(steps(), 2);
}

TEST_F(RankHubTest, ARankThatHasToldOfNoStepHasDoneNone) {
  const uint64_t one = rank(0);
  const uint64_t other = rank(1);
  hub_.receive(one, encode_join(1, {}), now_);  // the group begins without a state
  hub_.receive(other, encode_join(1, {}), now_);
  hub_.receive(one, encode_heartbeat({}), now_);
  EXPECT_EQ(std::ranges::count(events_, RankEvent::Kind::stepped, &RankEvent::kind), 0);
  hub_.receive(one, encode_heartbeat({.step = 0}), now_);
  EXPECT_EQ(std::ranges::count(events_, RankEvent::Kind::stepped, &RankEvent::kind), 1);
}

TEST_F(RankHubTest, WithoutRandomnessNobodyGetsIn) {
  RankHub::Setup bad = setup();
  bad.nonce = [] { return Result<Bytes>(fail(Code::internal, "none")); };
  RankHub hub(bad);
  const uint64_t connection = hub.open(now_);
  EXPECT_EQ(hub.output(connection), nullptr);
  EXPECT_THAT(hub.take_condemned(now_), ElementsAre(connection));
}

}  // namespace
}  // namespace tern
