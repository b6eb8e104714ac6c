// What every watcher of a cloud's metadata service needs.
#pragma once

#include <string>

#include "core/clock.h"
#include "core/log.h"
#include "preempt/notice.h"

namespace tern {

// Board, clock and log outlive the watcher.
struct CloudSetup {
  NoticeBoard* board = nullptr;
  Clock* clock = nullptr;
  Log* log = nullptr;
  std::string endpoint;          // "http://169.254.169.254"
  bool acknowledge = false;      // Azure: PreemptOptions
  Milliseconds limit{2'000};     // for an answer, on the machine itself or one hop away
  Milliseconds silence{20'000};  // GCP: how long the service is asked to wait for news
  // Azure's documents: "a delayed response in your first call of up to two minutes".
  Milliseconds first_limit{150'000};
};

}  // namespace tern
