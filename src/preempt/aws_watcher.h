// Notices from AWS: the instance metadata service (IMDSv2) tells when a spot machine will be taken
// away, and when it is more likely to be than others.
#pragma once

#include <stop_token>
#include <string>
#include <thread>

#include "core/bytes.h"
#include "preempt/cloud_setup.h"
#include "preempt/metadata_client.h"
#include "preempt/watcher.h"

namespace tern {

// Asks once a second. spot/instance-action becomes a preempt notice, after which nothing is asked
// any more; events/recommendations/rebalance becomes advice, once. 404 means that there is none.
class AwsWatcher final : public Watcher {
 public:
  explicit AwsWatcher(const CloudSetup& setup);

 private:
  void watch(const std::stop_token& stop);
  Status look(const std::stop_token& stop);
  Status look_for_rebalance(const std::stop_token& stop);
  Status renew_token(const std::stop_token& stop);
  Result<HttpAnswer> ask(const std::string& path, const std::stop_token& stop);

  const CloudSetup setup_;

  // Of the thread only.
  MetadataClient service_;
  std::string token_;
  Nanoseconds token_ends_{0};
  Nanoseconds rebalance_due_{0};
  bool is_preempted_ = false;
  bool is_advised_ = false;

  std::jthread thread_;  // last: it uses all of the above
};

// {"action": "terminate", "time": "2026-03-01T12:34:56Z"} and {"noticeTime": "..."}, without when
// they were seen. `corrupt` for anything else.
Result<Notice> parse_instance_action(BytesView json);
Result<Notice> parse_rebalance(BytesView json);

}  // namespace tern
