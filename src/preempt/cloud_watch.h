// The metadata service of the cloud that this machine is in: whether the machine will go, and what
// kind of machine it is. signal_watcher.h and file_watcher.h are the sources that every machine
// has.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "core/machine.h"
#include "core/metadata_endpoint.h"
#include "preempt/cloud_setup.h"
#include "preempt/options.h"
#include "preempt/watcher.h"

namespace tern {

// Watches, in the background, the one service that PreemptOptions::cloud and the machine's firmware
// lead to, and no other: nothing is sent on a machine of another cloud, or of none. Owned by
// main(). Constructing it asks nothing and cannot fail; a service that does not answer costs a log
// line.
class CloudWatch {
 public:
  struct Setup {
    PreemptOptions options;
    Machine machine;          // read_machine()
    VariableReader variable;  // moves the service
    NoticeBoard* board = nullptr;
    Clock* clock = nullptr;
    Log* log = nullptr;
  };
  explicit CloudWatch(const Setup& setup);
  ~CloudWatch();

  // "aws", "gcp", "azure"; empty: nobody is asked.
  const std::string& cloud() const { return cloud_; }
  // What the firmware says, else what the service has said since the construction: blocks for the
  // rest of a second after that. Empty if neither tells. Once, by one thread.
  std::string instance_type();
  // As Watcher's.
  void machine_may_go();

 private:
  void ask_instance_type(const std::stop_token& stop);

  const std::string cloud_;
  const std::string endpoint_;
  std::string instance_type_;  // of asker_ until that is joined
  std::unique_ptr<Watcher> watcher_;
  std::jthread asker_;  // last: it uses the above
};

// The cloud to ask: that of the option, else that of the firmware; empty for none.
std::string cloud_to_watch(const PreemptOptions& options, const Machine& machine);

}  // namespace tern
