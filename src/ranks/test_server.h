// A server and ranks of it, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "ranks/kv_server.h"
#include "ranks/rank_link.h"

namespace tern {

// A KvServer on loopback, with the real clock: sockets know no other.
class ServerTest : public testing::Test {
 protected:
  void serve(const RosterRules& rules, const RankHub::Limits& limits = {}) {
    auto started = KvServer::start({.secret = secret_,
                                    .rules = rules,
                                    .limits = limits,
                                    .on_event =
                                        [this](const RankEvent& event) {
                                          MutexLock lock(mutex_);
                                          events_.push_back(event);
                                          happened_.notify_all();
                                        },
                                    .clock = &clock_});
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
  }

  RankSetup setup_of(int64_t id) {
    return {.address = server_->address(),
            .secret = secret_,
            .id = id,
            .heartbeat = Milliseconds(20),
            .board = &board_,
            .clock = &clock_};
  }
  std::unique_ptr<RankLink> link(int64_t id) {
    auto opened = RankLink::open(setup_of(id));
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }

  // Waits, at most a minute, for an event.
  bool wait_for(const std::function<bool(const RankEvent&)>& is_it) {
    MutexLock lock(mutex_);
    return happened_.wait_for(lock, std::chrono::seconds(60), [&, this] {
      mutex_.assert_held();
      return std::ranges::any_of(events_, is_it);
    });
  }
  bool wait_for(RankEvent::Kind kind) {
    return wait_for([kind](const RankEvent& event) { return event.kind == kind; });
  }

  static bool fires(const std::stop_token& token) {
    Mutex mutex;
    ConditionVariable never;
    MutexLock lock(mutex);
    never.wait_for(lock, token, std::chrono::seconds(60), [] { return false; });
    return token.stop_requested();
  }

  SystemClock clock_;
  NoticeBoard board_;
  const Bytes secret_ = Bytes(kSecretBytes, 's');
  Mutex mutex_;
  ConditionVariable happened_;
  std::vector<RankEvent> events_ GUARDED_BY(mutex_);
  std::unique_ptr<KvServer> server_;
};

}  // namespace tern
