// Buckets on real servers, as tests open them: directly, or through a proxy that spoils a share of
// the requests.
#pragma once

#include <memory>
#include <string>

#include "core/clock.h"
#include "fault_proxy.h"
#include "store_servers.h"

namespace tern {

enum class Way { direct, through_faults };

// A server with what stands before it. Started at the first use and kept for the whole test
// program, which a test run by itself (ctest) is; ends with it.
class CloudUnderTest {
 public:
  CloudUnderTest(ServerKind kind, Way way);
  // Through a proxy with that plan.
  CloudUnderTest(ServerKind kind, WirePlan plan) : kind_(kind), plan_(std::move(plan)) {}

  StoreServer& server();
  const FaultProxy& proxy() const { return *proxy_; }

  // A bucket that nothing else uses, with the door that it needs. `options` are its sizes.
  struct Opened {
    std::unique_ptr<CloudDoor> door;
    std::string address;
    std::unique_ptr<Bucket> bucket;
  };
  Opened open_new_bucket(const BucketOptions& options = {});
  // Another door to that address.
  Opened open(const std::string& address, const BucketOptions& options = {});

 private:
  const ServerKind kind_;
  const WirePlan plan_;  // none: no proxy
  SystemClock clock_;
  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<StoreServer> server_;
  int buckets_ = 0;
};

// "Versitygw", "AzuriteThroughFaults"
std::string name_of(ServerKind kind, Way way);

}  // namespace tern
