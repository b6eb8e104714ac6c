#include "preempt/cloud_watch.h"

#include <utility>

#include "core/system_files.h"
#include "preempt/aws_watcher.h"
#include "preempt/azure_watcher.h"
#include "preempt/gcp_watcher.h"

namespace tern {
namespace {

// Beside a start that reads data and loads LibTorch; a service that is there takes milliseconds.
constexpr Milliseconds kInstanceTypeLimit{1'000};
constexpr size_t kInstanceTypeBytesMax = 64;

std::string endpoint_of(const std::string& cloud, const VariableReader& variable) {
  if (cloud == "aws") return aws_metadata_endpoint(variable);
  if (cloud == "gcp") return gcp_metadata_endpoint(variable);
  if (cloud == "azure") return azure_metadata_endpoint(variable);
  return "";
}

std::unique_ptr<Watcher> start_watcher(const std::string& cloud, const CloudSetup& setup) {
  if (cloud == "aws") return std::make_unique<AwsWatcher>(setup);
  if (cloud == "gcp") return std::make_unique<GcpWatcher>(setup);
  return std::make_unique<AzureWatcher>(setup);
}

}  // namespace

std::string cloud_to_watch(const PreemptOptions& options, const Machine& machine) {
  if (options.cloud == "auto") return machine.cloud;
  return options.cloud == "none" ? "" : options.cloud;
}

CloudWatch::CloudWatch(const Setup& setup)
    : cloud_(cloud_to_watch(setup.options, setup.machine)),
      endpoint_(endpoint_of(cloud_, setup.variable)),
      instance_type_(setup.machine.instance_type) {
  if (endpoint_.empty()) return;
  setup.log->info("preempt", "asking the cloud whether this machine will go",
                  {{"cloud", cloud_}, {"at", endpoint_}});
  watcher_ = start_watcher(cloud_, {.board = setup.board,
                                    .clock = setup.clock,
                                    .log = setup.log,
                                    .endpoint = endpoint_,
                                    .acknowledge = setup.options.acknowledge});
  if (instance_type_.empty() && cloud_ != "aws") {
    asker_ = std::jthread([this](std::stop_token stop) { ask_instance_type(stop); });
  }
}

CloudWatch::~CloudWatch() = default;

std::string CloudWatch::instance_type() {
  if (asker_.joinable()) asker_.join();
  return instance_type_;
}

void CloudWatch::machine_may_go() {
  if (watcher_ != nullptr) watcher_->machine_may_go();
}

// A failure is not told: the watcher asks the same service, and tells.
void CloudWatch::ask_instance_type(const std::stop_token& stop) {
  MetadataClient service(endpoint_);
  std::string type;
  if (cloud_ == "gcp") {
    const auto value = ask_gcp(service, "machine-type", "", {}, kInstanceTypeLimit, stop);
    // "projects/123456/machineTypes/n1-standard-4"
    if (value.has_value()) type = value->text.substr(value->text.rfind('/') + 1);
  } else {
    const auto machine = ask_azure_machine(service, kInstanceTypeLimit, stop);
    if (machine.has_value()) type = machine->size;
  }
  if (type.size() <= kInstanceTypeBytesMax) instance_type_ = printable_line(type);
}

}  // namespace tern
