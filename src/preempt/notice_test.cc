#include "preempt/notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tern {
namespace {

using testing::SizeIs;

TEST(NoticeBoard, IsEmptyUntilSomebodyPosts) {
  NoticeBoard board;
  EXPECT_FALSE(board.notice().has_value());
  EXPECT_FALSE(board.take_advice().has_value());
  EXPECT_THAT(board.all(), SizeIs(0));
}

TEST(NoticeBoard, TheFirstNoticeCountsAndLaterOnesAreTheSameEvent) {
  NoticeBoard board;
  board.post({.kind = NoticeKind::preempt, .source = "SIGTERM", .unix_ms = 1});
  board.post({.kind = NoticeKind::stop, .source = "SIGINT", .unix_ms = 2});
  board.post({.kind = NoticeKind::preempt, .source = "file preempt.txt", .unix_ms = 3});
  ASSERT_TRUE(board.notice().has_value());
  EXPECT_EQ(board.notice()->kind, NoticeKind::preempt);
  EXPECT_EQ(board.notice()->source, "SIGTERM");
  EXPECT_EQ(board.notice()->unix_ms, 1);
}

TEST(NoticeBoard, TheEarliestDeadlineOfAllIsTheOneToKeep) {
  NoticeBoard board;
  board.post({.source = "SIGTERM"});
  EXPECT_EQ(board.notice()->deadline_unix_ms, 0);
  board.post({.source = "a", .deadline_unix_ms = 5000});
  EXPECT_EQ(board.notice()->deadline_unix_ms, 5000);
  board.post({.source = "b", .deadline_unix_ms = 3000});
  board.post({.source = "c", .deadline_unix_ms = 4000});
  board.post({.source = "d"});
  board.post({.kind = NoticeKind::advice, .source = "e", .deadline_unix_ms = 10});
  EXPECT_EQ(board.notice()->deadline_unix_ms, 3000);
  EXPECT_EQ(board.notice()->source, "SIGTERM");
}

TEST(NoticeBoard, AnEventThatIsToldAgainIsOnTheBoardOnce) {
  NoticeBoard board;
  EXPECT_TRUE(board.post({.source = "a", .unix_ms = 1, .deadline_unix_ms = 9, .id = "1"}));
  EXPECT_FALSE(board.post({.source = "b", .unix_ms = 2, .deadline_unix_ms = 8, .id = "1"}));
  EXPECT_TRUE(board.post({.source = "a", .unix_ms = 3, .deadline_unix_ms = 9, .id = "2"}));
  // Without an id the content is one, and when it was seen is no part of that.
  EXPECT_TRUE(board.post({.source = "a", .unix_ms = 4}));
  EXPECT_FALSE(board.post({.source = "a", .unix_ms = 5}));
  EXPECT_TRUE(board.post({.source = "a", .unix_ms = 6, .deadline_unix_ms = 7}));
  EXPECT_TRUE(board.post({.kind = NoticeKind::stop, .source = "a", .unix_ms = 7}));
  EXPECT_THAT(board.all(), SizeIs(5));
}

TEST(NoticeBoard, AdviceIsTakenOnceInItsOrderAndTellsNobodyToLeave) {
  NoticeBoard board;
  board.post({.kind = NoticeKind::advice, .source = "a"});
  board.post({.kind = NoticeKind::advice, .source = "b"});
  board.post({.kind = NoticeKind::advice, .source = "a"});
  EXPECT_FALSE(board.notice().has_value());
  EXPECT_FALSE(board.stop_token().stop_requested());
  EXPECT_EQ(board.take_advice()->source, "a");
  board.post({.source = "SIGTERM"});
  EXPECT_EQ(board.take_advice()->source, "b");
  EXPECT_FALSE(board.take_advice().has_value());
  board.post({.kind = NoticeKind::advice, .source = "c"});
  EXPECT_EQ(board.take_advice()->source, "c");
  EXPECT_EQ(board.notice()->source, "SIGTERM");
}

TEST(NoticeBoard, AFloodOfAdviceIsNotKeptAndHidesNoNotice) {
  NoticeBoard board;
  for (int i = 0; i < 100'000; ++i) {
    board.post({.kind = NoticeKind::advice, .source = "a", .id = std::to_string(i)});
  }
  EXPECT_LE(board.all().size(), 256U);
  EXPECT_TRUE(board.post({.source = "SIGTERM"}));
  EXPECT_EQ(board.notice()->source, "SIGTERM");
}

TEST(NoticeBoard, ItsStopTokenFiresWithTheNoticeAlreadyThere) {
  NoticeBoard board;
  const std::stop_token stop = board.stop_token();
  EXPECT_FALSE(stop.stop_requested());
  bool saw_the_notice = false;
  const std::stop_callback woken(stop, [&] { saw_the_notice = board.notice().has_value(); });
  board.post({.source = "SIGTERM"});
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_TRUE(saw_the_notice);
}

TEST(NoticeBoard, KeepsOneNoticeWholeWhenManyThreadsPost) {
  NoticeBoard board;
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i <= 8; ++i) {
      threads.emplace_back([&board, i] {
        for (int repeat = 0; repeat < 1000; ++repeat) {
          board.post({.source = std::to_string(i), .unix_ms = i});
          const auto seen = board.notice();
          ASSERT_TRUE(seen.has_value());
          ASSERT_EQ(seen->source, std::to_string(seen->unix_ms));
        }
      });
    }
  }
  EXPECT_TRUE(board.notice().has_value());
  EXPECT_THAT(board.all(), SizeIs(8));
}

}  // namespace
}  // namespace tern
