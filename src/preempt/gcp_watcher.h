// Notices from Google Compute Engine: its metadata server tells when a machine is preempted, and
// when its host is about to be maintained.
#pragma once

#include <stop_token>
#include <string>
#include <thread>

#include "preempt/cloud_setup.h"
#include "preempt/metadata_client.h"
#include "preempt/watcher.h"

namespace tern {

// Asks by long poll, so that news arrive when they happen: instance/preempted TRUE is a preempt
// notice; instance/maintenance-event TERMINATE_ON_HOST_MAINTENANCE is one too, and
// MIGRATE_ON_HOST_MAINTENANCE, a pause, is advice. Answers without Google's own header are garbage.
class GcpWatcher final : public Watcher {
 public:
  explicit GcpWatcher(const CloudSetup& setup);

 private:
  struct Key;
  void watch(const Key& key, const std::stop_token& stop) const;

  const CloudSetup setup_;
  std::jthread preempted_;  // last: they use the above
  std::jthread maintenance_;
};

// The value of instance/KEY at the machine's metadata server, with the ETag that the next question
// needs.
struct GcpValue {
  std::string text;
  std::string etag;
};
// With an ETag the server is silent until the value has another, or `silence` is over.
Result<GcpValue> ask_gcp(MetadataClient& service, const std::string& key, const std::string& etag,
                         Milliseconds silence, Milliseconds limit, const std::stop_token& stop);

}  // namespace tern
