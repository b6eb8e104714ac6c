// Notices from Azure: scheduled events of its instance metadata service.
#pragma once

#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "core/mutex.h"
#include "preempt/cloud_setup.h"
#include "preempt/metadata_client.h"
#include "preempt/watcher.h"

namespace tern {

// Asks once a second. Of the events that name this machine Preempt, Terminate, Reboot and Redeploy
// are preempt notices, and Freeze, a pause of seconds, is advice; the event's id and its NotBefore
// are the notice's. Events of other machines of a scale set or availability set are passed over.
class AzureWatcher final : public Watcher {
 public:
  explicit AzureWatcher(const CloudSetup& setup);

  // If CloudSetup::acknowledge says so, tells Azure that the events which made the run leave may
  // begin (StartRequests). Blocks for a few seconds at most.
  void machine_may_go() override;

 private:
  void watch(const std::stop_token& stop);
  Status look(const std::stop_token& stop);

  const CloudSetup setup_;

  // Of the thread only.
  MetadataClient service_;
  std::string machine_;            // empty: not known yet
  bool has_asked_events_ = false;  // the first question takes long

  Mutex mutex_;
  std::vector<std::string> to_acknowledge_ GUARDED_BY(mutex_);  // ids

  std::jthread thread_;  // last: it uses all of the above
};

// What the service calls this machine.
struct AzureMachine {
  std::string name;  // as events have it
  std::string size;  // "Standard_NC24ads_A100_v4"
};
Result<AzureMachine> ask_azure_machine(MetadataClient& service, Milliseconds limit,
                                       const std::stop_token& stop);

// The events that concern `machine`, as notices without when they were seen. Those of kinds that
// are not known are passed over. `corrupt` for what is no such list.
Result<std::vector<Notice>> parse_scheduled_events(BytesView json, const std::string& machine);

}  // namespace tern
