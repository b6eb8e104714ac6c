// Ranks and the server that they share, over real sockets.
#include "ranks/rank_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "ranks/test_server.h"

namespace tern {
namespace {

using testing::HasSubstr;

constexpr Milliseconds kSoon{60'000};
constexpr RosterRules kTwo{.expected = 2, .min = 1, .max = 2};

class RankLinkTest : public ServerTest {
 protected:
  static std::future<Result<RankGroup>> join_later(RankLink& link, int64_t step = -1) {
    return std::async(std::launch::async, [&link, step] {
      return link.join({.step = step, .agreement = "same", .settings = ""}, {});
    });
  }

  // Two ranks in their first generation.
  void run_two() {
    serve(kTwo);
    first_ = link(0);
    second_ = link(1);
    auto joining = join_later(*first_);
    ASSERT_TRUE(second_->join({.agreement = "same"}, {}));
    ASSERT_TRUE(joining.get());
  }

  std::unique_ptr<RankLink> first_;
  std::unique_ptr<RankLink> second_;
};

TEST_F(RankLinkTest, KeysAreSharedAndWaitedFor) {
  run_two();
  auto value = std::async(std::launch::async, [this] { return second_->get("k", kSoon); });
  auto both = std::async(std::launch::async, [this] { return second_->wait({"k", "n"}, kSoon); });
  EXPECT_FALSE(*first_->check({"k"}));
  ASSERT_TRUE(first_->set("k", Bytes("v\0w", 3)));
  EXPECT_EQ(*value.get(), Bytes("v\0w", 3));
  EXPECT_EQ(*second_->add("n", 3), 3);
  EXPECT_EQ(*first_->add("n", 4), 7);
  EXPECT_TRUE(both.get());
  EXPECT_TRUE(*first_->check({"k", "n"}));
  EXPECT_EQ(*first_->compare_set("c", "", "one"), "one");
  EXPECT_EQ(*second_->compare_set("c", "two", "three"), "one");
  EXPECT_EQ(*second_->keys(), 3);
  EXPECT_TRUE(*second_->remove("c"));
  EXPECT_FALSE(*second_->remove("c"));
}

TEST_F(RankLinkTest, AValueUpToTheLimitOfAFramePassesAndNotMore) {
  run_two();
  const Bytes large(kFrameBytesMax - 100, 'x');
  ASSERT_TRUE(first_->set("k", large));
  EXPECT_EQ(*second_->get("k", kSoon), large);
  EXPECT_EQ(first_->set("k", Bytes(kFrameBytesMax, 'x')).error().code, Code::exhausted);
  EXPECT_TRUE(first_->keys());
}

TEST_F(RankLinkTest, WaitingForAKeyThatDoesNotComeEnds) {
  run_two();
  EXPECT_EQ(first_->get("never", Milliseconds(1)).error().code, Code::deadline_exceeded);
  EXPECT_EQ(first_->wait({"never"}, Milliseconds(0)).error().code, Code::deadline_exceeded);
  // The answer that is too late is nobody's.
  ASSERT_TRUE(second_->set("never", "late"));
  EXPECT_EQ(*first_->get("never", kSoon), "late");
}

TEST_F(RankLinkTest, ARankThatIsGoneEndsTheGenerationOfTheOther) {
  run_two();
  const std::stop_token over = first_->generation_over();
  auto waiting = std::async(std::launch::async, [this] { return first_->get("k", kSoon); });
  second_.reset();
  EXPECT_TRUE(fires(over));
  EXPECT_EQ(waiting.get().error().code, Code::aborted);
  const Result<RankGroup> group = first_->join({.step = 5, .agreement = "same"}, {});
  ASSERT_TRUE(group);
  EXPECT_EQ(group->world, 1);
  EXPECT_EQ(group->step, 5);
  EXPECT_EQ(group->source, -1);
  EXPECT_EQ(group->interface_address, "127.0.0.1");
  EXPECT_FALSE(first_->generation_over().stop_requested());
}

TEST_F(RankLinkTest, ANewcomerIsWantedAndGetsTheState) {
  run_two();
  ASSERT_TRUE(first_->set("old", "1"));
  second_.reset();
  ASSERT_TRUE(first_->join({.step = 5, .agreement = "same"}, {}));
  EXPECT_EQ(*first_->keys(), 0) << "keys last for one generation";
  EXPECT_FALSE(first_->change_is_wanted());
  second_ = link(1);
  auto joining = join_later(*second_);
  const Nanoseconds deadline = clock_.now() + std::chrono::seconds(60);
  while (!first_->change_is_wanted() && clock_.now() < deadline)
    clock_.wait_for(Milliseconds(1), {});
  EXPECT_TRUE(first_->change_is_wanted());
  const Result<RankGroup> group = first_->join({.step = 6, .agreement = "same"}, {});
  ASSERT_TRUE(group);
  const Result<RankGroup> new_group = joining.get();
  ASSERT_TRUE(new_group);
  EXPECT_EQ(group->rank, 0);
  EXPECT_EQ(new_group->rank, 1);
  EXPECT_EQ(new_group->source, 0);
  EXPECT_EQ(new_group->step, 6);
  EXPECT_THAT(new_group->members[1], HasSubstr("machine 0, rank 1 (pid "));
  EXPECT_FALSE(first_->change_is_wanted());
}

TEST_F(RankLinkTest, OtherSettingsAreRefusedWithTheirNames) {
  serve({.expected = 1, .min = 1, .max = 2});
  first_ = link(0);
  second_ = link(1);
  ASSERT_TRUE(first_->join({.agreement = "same", .settings = "seed = 1\n"}, {}));
  const auto refused = second_->join({.agreement = "other", .settings = "seed = 2\n"}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::failed_precondition);
  EXPECT_THAT(refused.error().message, HasSubstr("seed is 1 there and 2 here"));
  EXPECT_FALSE(first_->generation_over().stop_requested());
}

TEST_F(RankLinkTest, JoiningCanBeStopped) {
  serve(kTwo);
  first_ = link(0);
  std::stop_source stop;
  auto joining = std::async(std::launch::async, [&] { return first_->join({}, stop.get_token()); });
  stop.request_stop();
  EXPECT_EQ(joining.get().error().code, Code::cancelled);
  // It does not count any longer, and may join again.
  second_ = link(1);
  auto second = join_later(*second_);
  ASSERT_TRUE(first_->join({.agreement = "same"}, {}));
  EXPECT_EQ(second.get()->world, 2);
}

TEST_F(RankLinkTest, LeavingIsNoLoss) {
  run_two();
  EXPECT_TRUE(second_->leave("done"));
  EXPECT_TRUE(wait_for([](const RankEvent& event) {
    return event.kind == RankEvent::Kind::left && event.why == "done" && event.who.id == 1;
  }));
  EXPECT_EQ(second_->keys().error().code, Code::unavailable);
  const Result<RankGroup> group = first_->join({.step = 1, .agreement = "same"}, {});
  ASSERT_TRUE(group);
  EXPECT_EQ(group->world, 1);
  MutexLock lock(mutex_);
  for (const RankEvent& event : events_) EXPECT_NE(event.kind, RankEvent::Kind::lost);
}

TEST_F(RankLinkTest, NoticesReachAllRanksAlsoThoseThatComeLater) {
  serve(kTwo);
  NoticeBoard early_board;
  RankSetup setup = setup_of(0);
  setup.board = &early_board;
  const auto early = RankLink::open(setup);
  ASSERT_TRUE(early);
  server_->post({.kind = NoticeKind::stop, .source = "SIGINT", .unix_ms = 5, .id = "1"});
  EXPECT_TRUE(fires(early_board.stop_token()));
  second_ = link(1);
  EXPECT_TRUE(fires(board_.stop_token()));
  EXPECT_EQ(board_.notice()->kind, NoticeKind::stop);
  EXPECT_EQ(board_.notice()->source, "SIGINT");
}

TEST_F(RankLinkTest, TheFirstStepOfAGenerationIsToldAtOnce) {
  run_two();
  first_->tell({.step = 0, .rate = 10, .waits_for = "batch 1"});
  EXPECT_TRUE(wait_for([](const RankEvent& event) {
    return event.kind == RankEvent::Kind::stepped && event.who.id == 0 &&
           event.progress.waits_for == "batch 1";
  }));
}

TEST_F(RankLinkTest, ASupervisorThatIsGoneEndsEverythingThatWaits) {
  run_two();
  const std::stop_token over = first_->generation_over();
  auto waiting = std::async(std::launch::async, [this] { return first_->get("k", kSoon); });
  auto joining = join_later(*second_);
  server_.reset();
  EXPECT_TRUE(fires(over));
  const Error gone = waiting.get().error();
  // That second_ joined may have ended first_'s generation a moment before.
  EXPECT_TRUE(gone.code == Code::unavailable || gone.code == Code::aborted) << gone.message;
  EXPECT_EQ(joining.get().error().code, Code::unavailable);
  EXPECT_EQ(first_->keys().error().code, Code::unavailable);
  EXPECT_EQ(
      RankLink::open({.address = "127.0.0.1:1", .secret = secret_, .clock = &clock_}).error().code,
      Code::unavailable);
}

TEST_F(RankLinkTest, ARankThatIsStartedAgainTakesThePlaceOfItsOldSelf) {
  run_two();
  const std::unique_ptr<RankLink> again = link(1);
  EXPECT_TRUE(fires(first_->generation_over()));
  auto joining = join_later(*again);
  int64_t world = 0;
  for (int64_t step = 1; world < 2; ++step) {
    const auto group = first_->join({.step = step, .agreement = "same"}, {});
    ASSERT_TRUE(group);
    world = group->world;
  }
  EXPECT_TRUE(joining.get());
  EXPECT_EQ(second_->keys().error().code, Code::unavailable);
}

// The hub of a meshed run may change: what listens at the ranks' address stays, and who answers
// there is another. Here another process with its id takes the connection from the first.
TEST_F(RankLinkTest, ALostConnectionEndsTheGenerationAndTheNextJoinGoesOn) {
  serve(kTwo);
  RankSetup setup = setup_of(0);
  setup.reconnects = true;
  first_ = std::move(*RankLink::open(setup));
  second_ = link(1);
  auto joining = join_later(*first_);
  ASSERT_TRUE(second_->join({.agreement = "same"}, {}));
  const Result<RankGroup> before = joining.get();
  ASSERT_TRUE(before);
  EXPECT_EQ(before->group_id, group_id_of(secret_));
  EXPECT_TRUE(before->may_take_over);

  const std::stop_token over = first_->generation_over();
  auto waiting = std::async(std::launch::async, [this] { return first_->get("k", kSoon); });
  const std::unique_ptr<RankLink> thief = link(0);
  EXPECT_TRUE(fires(over));
  EXPECT_EQ(waiting.get().error().code, Code::aborted);
  EXPECT_TRUE(fires(second_->generation_over()));
  // Also once it is connected again: there is nothing to wait for before the next join.
  EXPECT_EQ(first_->get("k", kSoon).error().code, Code::aborted);
  auto again = join_later(*first_, 5);
  for (int64_t world = 0; world < 2;) {
    const auto group = second_->join({.step = 5, .agreement = "same"}, {});
    ASSERT_TRUE(group);
    world = group->world;
  }
  const Result<RankGroup> after = again.get();
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_GT(after->generation, before->generation);
  EXPECT_TRUE(first_->leave("done"));
}

TEST_F(RankLinkTest, WhenNobodyListensAnyMoreAReconnectingRankEnds) {
  serve({.expected = 1, .min = 1, .max = 1});
  RankSetup setup = setup_of(0);
  setup.reconnects = true;
  first_ = std::move(*RankLink::open(setup));
  ASSERT_TRUE(first_->join({.agreement = "same"}, {}));
  const std::stop_token over = first_->generation_over();
  server_.reset();
  EXPECT_TRUE(fires(over));
  EXPECT_EQ(first_->join({.step = 1, .agreement = "same"}, {}).error().code, Code::unavailable);
}

TEST_F(RankLinkTest, AReconnectingRankThatIsNotLetInWaitsUntilItIsStopped) {
  serve(kTwo);
  RankSetup setup = setup_of(0);
  setup.reconnects = true;
  setup.secret = Bytes(kSecretBytes, 'x');
  first_ = std::move(*RankLink::open(setup));
  std::stop_source stop;
  auto joining = std::async(std::launch::async, [&] { return first_->join({}, stop.get_token()); });
  EXPECT_TRUE(wait_for(RankEvent::Kind::stranger));
  EXPECT_EQ(first_->set("k", "v").error().code, Code::aborted);
  stop.request_stop();
  EXPECT_EQ(joining.get().error().code, Code::cancelled);
  EXPECT_TRUE(first_->leave("done"));
}

TEST(RankSetup, IsReadFromTheEnvironmentAndAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Bytes secret(kSecretBytes, 'x');
  ASSERT_EQ(write(ends[1], secret.data(), secret.size()), static_cast<ssize_t>(secret.size()));
  std::map<std::string, std::string> variables = {{kRankAddressVariable, "127.0.0.1:5"},
                                                  {kRankSecretVariable, std::to_string(ends[0])},
                                                  {kRankIdVariable, "3"},
                                                  {kRankMachineVariable, "0"},
                                                  {kRankInterfaceVariable, "127.0.0.1"},
                                                  {kRankHeartbeatVariable, "250"}};
  const VariableReader read = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_TRUE(is_supervised(read));
  const Result<RankSetup> setup = read_rank_setup(read);
  ASSERT_TRUE(setup) << setup.error().message;
  EXPECT_EQ(setup->secret, secret);
  EXPECT_EQ(setup->id, 3);
  EXPECT_EQ(setup->heartbeat, Milliseconds(250));
  close(ends[1]);
  // The secret is there once, and what is missing is named.
  EXPECT_THAT(read_rank_setup(read).error().message, HasSubstr("SECRET_FD"));
  variables[kRankIdVariable] = "-1";
  EXPECT_THAT(read_rank_setup(read).error().message, HasSubstr("TERN_RANK_ID is '-1'"));
  variables.erase(kRankInterfaceVariable);
  variables[kRankIdVariable] = "0";
  EXPECT_THAT(read_rank_setup(read).error().message, HasSubstr(kRankInterfaceVariable));
  variables.clear();
  EXPECT_FALSE(is_supervised(read));
}

}  // namespace
}  // namespace tern
