#include "program/torch_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Nanoseconds kNow{0};

template <typename T>
Bytes raw(T value) {
  Bytes bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
Bytes text(BytesView value) { return raw(uint64_t{value.size()}) + Bytes(value); }
Bytes query(int number) { return Bytes(1, static_cast<char>(number)); }

const Bytes kHello = query(0) + raw(uint32_t{0x3C85F7CE});
Bytes set(BytesView key, BytesView value) { return query(1) + text(key) + text(value); }
Bytes get(BytesView key) { return query(3) + text(key); }
Bytes add(BytesView key, int64_t amount) { return query(4) + text(key) + raw(amount); }
Bytes wait(BytesView key) { return query(6) + raw(uint64_t{1}) + text(key); }
Bytes push(BytesView key, BytesView value) { return query(14) + text(key) + text(value); }
Bytes pop(BytesView key) { return query(15) + text(key); }
const Bytes kCount = query(7);
const Bytes kStopWaiting(1, '\0');

class TorchStoreTest : public testing::Test {
 protected:
  explicit TorchStoreTest(const TorchStore::Limits& limits = {})
      : store_({.limits = limits,
                .on_refused = [this](const std::string& why) { refused_.push_back(why); }}) {}

  uint64_t open() {
    const uint64_t id = store_.open(kNow);
    store_.receive(id, kHello, kNow);
    return id;
  }
  // What it is answered, at once.
  Bytes ask(uint64_t id, BytesView bytes) {
    store_.receive(id, bytes, kNow);
    return take(id);
  }
  Bytes take(uint64_t id) {
    Bytes* const output = store_.output(id);
    return output == nullptr ? "closed" : std::exchange(*output, {});
  }

  std::vector<std::string> refused_;
  TorchStore store_;
};

struct Small : TorchStoreTest {
  Small()
      : TorchStoreTest({.keys = {.keys = 4, .key_bytes = 16, .all_bytes = 256},
                        .queued_bytes = 4'000,
                        .message_bytes = 200,
                        .output_bytes = 300,
                        .connections = 3}) {}
};

TEST_F(TorchStoreTest, AnswersRequestsThatComeInPiecesAndTogether) {
  const uint64_t id = open();
  EXPECT_TRUE(store_.was_used());
  const Bytes all = set("k", "value") + get("k") + add("n", 5) + add("n", -7) + kCount;
  Bytes answers;
  for (const char byte : all) answers += ask(id, {&byte, 1});
  const Bytes expected = text("value") + raw(int64_t{5}) + raw(int64_t{-2}) + raw(int64_t{2});
  EXPECT_EQ(answers, expected);
  const uint64_t other = open();
  EXPECT_EQ(ask(other, all), text("value") + raw(int64_t{3}) + raw(int64_t{-4}) + raw(int64_t{2}));
  EXPECT_THAT(refused_, IsEmpty());
}

TEST_F(TorchStoreTest, WakesAllThatWaitForAKeyOnce) {
  const uint64_t first = open();
  const uint64_t second = open();
  const Bytes both = query(6) + raw(uint64_t{2}) + text("a") + text("b");
  EXPECT_EQ(ask(first, both), "");
  EXPECT_EQ(ask(second, wait("a")), "");
  const uint64_t setter = open();
  ask(setter, set("a", ""));
  EXPECT_EQ(take(first), "");
  EXPECT_EQ(take(second), kStopWaiting);
  ask(setter, add("b", 1));
  EXPECT_EQ(take(first), kStopWaiting);
  ask(setter, set("a", "again"));
  EXPECT_EQ(take(first), "");
  EXPECT_EQ(ask(second, both), kStopWaiting);
}

TEST_F(TorchStoreTest, ForgetsAWaitThatIsTakenBackOrWhoseConnectionIsClosed) {
  const uint64_t patient = open();
  const uint64_t gone = open();
  EXPECT_EQ(ask(patient, wait("a")), "");
  EXPECT_EQ(ask(gone, wait("a")), "");
  EXPECT_EQ(ask(patient, query(12)), "\1");
  store_.close(gone, kNow);
  ask(open(), set("a", "1"));
  EXPECT_EQ(take(patient), "");
}

TEST_F(TorchStoreTest, WhatIsPushedWakesTheOneThatWaitsLongest) {
  const uint64_t late = open();
  const uint64_t early = open();
  EXPECT_EQ(ask(early, wait("q")), "");
  EXPECT_EQ(ask(late, wait("q")), "");
  const uint64_t pusher = open();
  ask(pusher, push("q", "one"));
  EXPECT_EQ(take(early), kStopWaiting);
  EXPECT_EQ(take(late), "");
  EXPECT_EQ(ask(early, pop("q")), raw(int64_t{1}) + text("one"));
  EXPECT_EQ(ask(early, pop("q")), raw(int64_t{0}));
  ask(pusher, push("q", "two"));
  EXPECT_EQ(take(late), kStopWaiting);
  EXPECT_EQ(ask(late, query(16) + text("q")), raw(int64_t{1}));
}

TEST_F(TorchStoreTest, AQueueThatWasFilledBeforeTheKeyWasSetEndsAWaitForBoth) {
  const uint64_t waiter = open();
  EXPECT_EQ(ask(waiter, query(6) + raw(uint64_t{2}) + text("k") + text("q")), "");
  const uint64_t other = open();
  ask(other, push("q", "one"));
  EXPECT_EQ(take(waiter), "");
  ask(other, set("k", ""));
  EXPECT_EQ(take(waiter), kStopWaiting);
}

TEST_F(TorchStoreTest, ClosesAStrangerAndNothingElse) {
  const uint64_t good = open();
  for (const Bytes& first : {Bytes("GET / HTTP/1.1\r\n"), add("init/", 1), query(0) + "\1\2\3\4"}) {
    const uint64_t stranger = store_.open(kNow);
    EXPECT_EQ(ask(stranger, first), "closed");
    EXPECT_THAT(store_.take_condemned(kNow), ElementsAre(stranger));
  }
  EXPECT_THAT(refused_, testing::Each(HasSubstr("PyTorch 2.1 or later")));
  EXPECT_EQ(ask(good, kCount), raw(int64_t{0}));
}

TEST_F(TorchStoreTest, ClosesOneThatSaysNothing) {
  const uint64_t silent = store_.open(kNow);
  const uint64_t good = open();
  store_.tick(kNow + std::chrono::seconds(30));
  EXPECT_THAT(store_.take_condemned(kNow), IsEmpty());
  store_.tick(kNow + std::chrono::seconds(61));
  EXPECT_THAT(store_.take_condemned(kNow), ElementsAre(silent));
  EXPECT_EQ(ask(good, kCount), raw(int64_t{0}));
}

TEST_F(TorchStoreTest, ClosesAConnectionThatAsksForWhatIsNotKnown) {
  EXPECT_EQ(ask(open(), query(18)), "closed");
  EXPECT_EQ(ask(open(), query(0)), "closed");
  EXPECT_EQ(ask(open(), set("t", "text") + add("t", 1)), "closed");
  EXPECT_THAT(refused_,
              ElementsAre(HasSubstr("request 18"), HasSubstr("request 0"), HasSubstr("no number")));
}

TEST_F(TorchStoreTest, TakesNoMemoryForASizeThatIsOnlyClaimed) {
  for (const Bytes& claim :
       {query(1) + raw(~uint64_t{0}), query(1) + text("k") + raw(uint64_t{1} << 40U),
        query(5) + raw(~uint64_t{0}), query(11) + raw(uint64_t{1} << 50U)}) {
    EXPECT_EQ(ask(open(), claim), "closed");
  }
  EXPECT_THAT(refused_, testing::Each(HasSubstr("are allowed")));
  EXPECT_EQ(refused_.size(), 4U);
}

TEST_F(Small, HoldsNoMoreThanItMay) {
  EXPECT_EQ(ask(open(), set("12345678901234567", "")), "closed");
  const uint64_t pusher = open();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(pusher, push("", "")), "");
  EXPECT_EQ(ask(pusher, push("", "")), "closed") << "even pieces without bytes are held";
  const uint64_t id = open();
  for (const char* key : {"a", "b", "c", "d"}) ask(id, set(key, Bytes(40, 'x')));
  EXPECT_EQ(ask(id, kCount), raw(int64_t{4}));
  EXPECT_EQ(ask(id, set("e", "")), "closed");
  const uint64_t next = open();
  EXPECT_EQ(ask(next, kCount), raw(int64_t{4}));
}

// A few bytes ask for many.
TEST_F(Small, AnswersNoMoreThanMayBeLeftUnread) {
  const uint64_t id = open();
  ask(id, set("a", Bytes(100, 'x')));
  Bytes many;
  for (int i = 0; i < 1'000; ++i) many += get("a");
  EXPECT_EQ(ask(id, many), "closed");
  EXPECT_THAT(store_.take_condemned(kNow), ElementsAre(id));
  EXPECT_THAT(refused_, ElementsAre(HasSubstr("does not read")));
  const uint64_t next = open();
  Bytes lists;
  for (int i = 0; i < 1'000; ++i) lists += query(17);
  EXPECT_EQ(ask(next, lists), "closed");
}

TEST_F(TorchStoreTest, ClosesTheConnectionThatHoldsMostWhenAllHoldTooMuch) {
  TorchStore store({.limits = {.buffered_bytes = 1U << 20U}});
  const uint64_t modest = store.open(kNow);
  const uint64_t greedy = store.open(kNow);
  for (const uint64_t id : {modest, greedy}) store.receive(id, kHello, kNow);
  store.receive(modest, set("k", Bytes(100'000, 'x')) + get("k"), kNow);
  store.receive(greedy, query(1) + text("k") + raw(uint64_t{2U << 20U}), kNow);
  EXPECT_THAT(store.take_condemned(kNow), IsEmpty());
  store.receive(greedy, Bytes(1U << 20U, 'x'), kNow);
  EXPECT_THAT(store.take_condemned(kNow), ElementsAre(greedy));
  EXPECT_NE(store.output(modest), nullptr);
}

TEST_F(TorchStoreTest, AppendsWithoutACopyOfWhatIsThere) {
  const uint64_t id = open();
  const Bytes append = query(9) + text("k") + text("ab");
  EXPECT_EQ(ask(id, append + append + get("k")), text("abab"));
  const uint64_t waiter = open();
  EXPECT_EQ(ask(waiter, wait("l")), "");
  ask(id, query(9) + text("l") + text(""));
  EXPECT_EQ(take(waiter), kStopWaiting);
}

TEST_F(Small, ClosesAConnectionThatIsOneTooMany) {
  open();
  open();
  const uint64_t third = open();
  EXPECT_THAT(store_.take_condemned(kNow), IsEmpty());
  const uint64_t fourth = open();
  EXPECT_THAT(store_.take_condemned(kNow), ElementsAre(fourth));
  EXPECT_THAT(refused_, ElementsAre(HasSubstr("3 others")));
  EXPECT_EQ(ask(third, kCount), raw(int64_t{0}));
}

TEST_F(TorchStoreTest, ServesItByASocket) {
  SystemClock clock;
  const auto server = SocketServer::start({.handler = &store_, .clock = &clock});
  ASSERT_TRUE(server) << server.error().message;
  const auto socket = connect_to((*server)->address(), Milliseconds(5'000));
  ASSERT_TRUE(socket) << socket.error().message;
  const Bytes asked = kHello + add("n", 41) + add("n", 1);
  ASSERT_EQ(write(socket->get(), asked.data(), asked.size()), std::ssize(asked));
  Bytes answer;
  char buffer[64];
  while (answer.size() < 16) {
    pollfd source{socket->get(), POLLIN, 0};
    ASSERT_EQ(poll(&source, 1, 5'000), 1);
    const ssize_t got = read(socket->get(), buffer, sizeof buffer);
    ASSERT_GT(got, 0);
    answer.append(buffer, static_cast<size_t>(got));
  }
  EXPECT_EQ(answer, raw(int64_t{41}) + raw(int64_t{42}));
}

}  // namespace
}  // namespace tern
