#include "preempt/notice.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tern {
namespace {

TEST(NoticeBoard, IsEmptyUntilSomebodyPosts) {
  NoticeBoard board;
  EXPECT_FALSE(board.notice().has_value());
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
}

}  // namespace
}  // namespace tern
