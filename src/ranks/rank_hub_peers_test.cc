// Supervisors of other machines at the hub, without sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ranks/rank_hub.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Word = PeerWord::Kind;

class RankHubPeersTest : public testing::Test {
 protected:
  RankHub::Setup setup() {
    return {.secret = "secret",
            .rules = {.expected = 2, .min = 1, .max = 2},
            .nonce = []() -> Result<Bytes> { return Bytes(kSecretBytes, 'c'); },
            .on_event = [this](const RankEvent& event) { events_.push_back(event); },
            .machines = 3,
            .on_peer = [this](PeerWord word) { words_.push_back(std::move(word)); }};
  }
  uint64_t connect(Role role, int64_t machine, int64_t id = 0) {
    Hello said{.role = role, .nonce = Bytes(kSecretBytes, 'n'), .who = {machine, id, 7}};
    said.proof = hello_proof("secret", Bytes(kSecretBytes, 'c'), said);
    const uint64_t connection = hub_.open(now_);
    hub_.receive(connection, encode(said), now_);
    return connection;
  }
  uint64_t peer(int64_t machine) { return connect(Role::supervisor, machine); }
  uint64_t rank(int64_t machine) { return connect(Role::rank, machine); }

  std::vector<Word> kinds() {
    std::vector<Word> kinds;
    for (const PeerWord& word : std::exchange(words_, {})) kinds.push_back(word.kind);
    return kinds;
  }
  bool was_told(uint64_t connection, Message message) {
    FrameReader frames(kFrameBytesMax);
    Bytes* const output = hub_.output(connection);
    if (output == nullptr) return false;
    frames.add(std::exchange(*output, {}));
    bool was = false;
    for (auto frame = frames.next(); frame && *frame; frame = frames.next()) {
      was = was || (**frame)[0] == static_cast<char>(message);
    }
    return was;
  }
  bool is_open(uint64_t connection) { return hub_.output(connection) != nullptr; }

  std::vector<RankEvent> events_;
  std::vector<PeerWord> words_;
  RankHub hub_{setup()};
  Nanoseconds now_{0};
};

TEST_F(RankHubPeersTest, ASupervisorComesSpeaksAndGoes) {
  const uint64_t one = peer(1);
  EXPECT_TRUE(was_told(one, Message::welcome));
  EXPECT_THAT(kinds(), ElementsAre(Word::came));
  hub_.receive(one, encode(PeerState{.machine = 1, .term = 4, .hub = 0, .alive = 2}), now_);
  ASSERT_EQ(words_.size(), 1U);
  EXPECT_EQ(words_[0].machine, 1);
  EXPECT_EQ(words_[0].state.term, 4);
  EXPECT_EQ(words_[0].state.alive, 2);
  hub_.close(one, now_);
  EXPECT_EQ(words_.back().kind, Word::went);
  EXPECT_TRUE(words_.back().is_dead);
  // It is no rank.
  EXPECT_THAT(events_, IsEmpty());
}

TEST_F(RankHubPeersTest, WhatTheySayComesBackAsItWasPut) {
  const uint64_t one = peer(1);
  const PeerState state{.machine = 1,
                        .term = 3,
                        .hub = 2,
                        .doing = PeerState::Doing::done,
                        .alive = 4,
                        .count = 5,
                        .run_has_ended = true,
                        .leader = 1,
                        .workers = {0, 2}};
  hub_.receive(one, encode(state), now_);
  EXPECT_EQ(words_.back().state, state);
  hub_.receive(one, encode(PeerNotice{.machine = 1, .notice = {.source = "s", .id = "i"}}), now_);
  EXPECT_EQ(words_.back().notice.machine, 1);
  EXPECT_EQ(words_.back().notice.notice.source, "s");
  hub_.receive(one,
               encode(RankEvent{.kind = RankEvent::Kind::hung,
                                .who = {1, 2, 3},
                                .group = {.generation = 9, .members = {"a", "b"}},
                                .progress = {.step = 7, .rate = 1.5, .waits_for = "w"},
                                .why = "y"}),
               now_);
  const RankEvent& event = words_.back().event;
  EXPECT_EQ(event.kind, RankEvent::Kind::hung);
  EXPECT_EQ(event.who, (RankIdentity{1, 2, 3}));
  EXPECT_EQ(event.group.generation, 9);
  EXPECT_THAT(event.group.members, ElementsAre("a"));
  EXPECT_EQ(event.progress.step, 7);
  EXPECT_EQ(event.why, "y");
  EXPECT_TRUE(is_open(one));
}

TEST_F(RankHubPeersTest, WhatCannotBeClosesTheConnectionAndNothingElse) {
  const uint64_t good = peer(2);
  Bytes unknown_doing = encode(PeerState{});
  unknown_doing[4 + 1 + 16] = 9;
  for (const Bytes& said :
       {encode(PeerState{.term = -1}), encode(PeerState{.hub = 1'000'000}),
        encode(PeerState{.alive = -1}), encode(PeerState{.term = INT64_MAX}), unknown_doing,
        FrameWriter(Message::peer_state).finish(), FrameWriter(Message::count).number(1).finish(),
        FrameWriter(Message::peer_notice).number(1).text("").finish(),
        FrameWriter(Message::peer_event).byte(200).finish(), Bytes(4, '\xff')}) {
    const uint64_t bad = peer(1);
    hub_.receive(bad, said, now_);
    EXPECT_FALSE(is_open(bad));
    EXPECT_TRUE(is_open(good));
    EXPECT_EQ(words_.back().kind, Word::went);
  }
}

TEST_F(RankHubPeersTest, OnlyMachinesOfTheRunAreLetIn) {
  EXPECT_FALSE(is_open(peer(3)));
  EXPECT_FALSE(is_open(peer(-1)));
  EXPECT_FALSE(is_open(connect(Role::supervisor, 1, 5)));
  EXPECT_THAT(words_, IsEmpty());
}

TEST_F(RankHubPeersTest, OneThatIsStartedAgainTakesThePlaceOfItsOldSelf) {
  const uint64_t old = peer(1);
  const uint64_t rank_of_it = rank(1);
  const uint64_t again = peer(1);
  EXPECT_FALSE(is_open(old));
  EXPECT_TRUE(is_open(again));
  EXPECT_TRUE(is_open(rank_of_it)) << "another role";
  EXPECT_THAT(kinds(), ElementsAre(Word::came, Word::went, Word::came));
}

TEST_F(RankHubPeersTest, OneThatIsSilentIsGoneAndNotKnownToBeDead) {
  const uint64_t silent = peer(1);
  const uint64_t good = peer(2);
  for (int i = 0; i < 110; ++i) {
    now_ += Milliseconds(100);
    hub_.receive(good, encode(PeerState{}), now_);
    hub_.tick(now_);
  }
  EXPECT_FALSE(is_open(silent));
  EXPECT_TRUE(is_open(good));
  const auto went = std::ranges::find(words_, Word::went, &PeerWord::kind);
  ASSERT_NE(went, words_.end());
  EXPECT_FALSE(went->is_dead);
  // One that was itself stopped blames nobody.
  now_ += std::chrono::seconds(1'000);
  hub_.tick(now_);
  EXPECT_TRUE(is_open(good));
}

TEST_F(RankHubPeersTest, ANoticeGoesToTheRanksOfItsMachineAndOnce) {
  const uint64_t here = rank(0);
  const uint64_t there = rank(1);
  const uint64_t supervisor = peer(1);
  for (const uint64_t connection : {here, there, supervisor}) hub_.output(connection)->clear();
  hub_.post({.machine = 1, .notice = {.source = "cloud"}});
  EXPECT_FALSE(was_told(here, Message::notice));
  EXPECT_TRUE(was_told(there, Message::notice));
  EXPECT_FALSE(was_told(supervisor, Message::notice));
  hub_.post({.machine = 1, .notice = {.source = "cloud"}});
  EXPECT_FALSE(was_told(there, Message::notice));
  EXPECT_TRUE(was_told(connect(Role::rank, 1, 1), Message::notice)) << "that comes later";
  EXPECT_FALSE(was_told(connect(Role::rank, 0, 1), Message::notice));
  hub_.post({.machine = -1, .notice = {.source = "a person"}});
  EXPECT_TRUE(was_told(here, Message::notice));
  EXPECT_TRUE(was_told(there, Message::notice));
}

TEST_F(RankHubPeersTest, RanksAreLetInByTheHubAloneAndEachTermHasItsOwnGroup) {
  hub_.refuse_ranks(now_);
  EXPECT_FALSE(is_open(rank(0)));
  EXPECT_THAT(events_, IsEmpty()) << "it is no stranger";
  const uint64_t supervisor = peer(1);
  hub_.serve({.expected = 1, .min = 1, .max = 2}, now_);
  const uint64_t let_in = rank(0);
  EXPECT_TRUE(is_open(let_in));
  hub_.post({.machine = -1, .notice = {.source = "a person"}});
  hub_.receive(let_in, encode_join(1, {.step = 5, .generation = 7, .rank = 0}), now_);
  EXPECT_EQ(events_.back().kind, RankEvent::Kind::formed);
  EXPECT_EQ(events_.back().group.generation, 8);
  hub_.refuse_ranks(now_);
  EXPECT_FALSE(is_open(let_in));
  EXPECT_TRUE(is_open(supervisor));
  hub_.serve({.expected = 1, .min = 1, .max = 2}, now_);
  const uint64_t again = rank(0);
  EXPECT_FALSE(was_told(again, Message::notice)) << "a notice of another term";
}

TEST_F(RankHubPeersTest, WhatIsSentReachesThatMachine) {
  const uint64_t one = peer(1);
  const uint64_t two = peer(2);
  hub_.send(2, encode(PeerState{}));
  hub_.send(0, encode(PeerState{}));
  EXPECT_FALSE(was_told(one, Message::peer_state));
  EXPECT_TRUE(was_told(two, Message::peer_state));
}

}  // namespace
}  // namespace tern
