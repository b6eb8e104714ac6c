// A store whose n-th request goes wrong as planned: what networks, servers and kills do, on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "storage/object_store.h"

namespace tern {

enum class Fault {
  fail_before,  // nothing is done; `unavailable`
  fail_after,   // done, but the reply is lost; `unavailable`
  tear,       // put, create: half of the bytes are stored, then `unavailable`; others: fail_before
  delay,      // the hook runs (it waits), then the request is done as if nothing had been
  duplicate,  // done twice, as if a network had repeated it; the first reply counts
  lose,       // put, create, remove: acknowledged and not done; others: fail_before
};

// For tests. Safe from any thread; blocks as the inner store does.
//
// Every call of a verb (not local_path) is a request; they are numbered from 1 in the order in
// which they arrive. A request without a plan goes straight to the inner store.
//
//   FaultyStore faulty(memory);
//   faulty.inject(3, Fault::tear);
//   faulty.inject(5, Fault::fail_after, [] { raise(SIGKILL); });
class FaultyStore final : public ObjectStore {
 public:
  // Runs at the point where the fault strikes: fail_before, before anything; fail_after and
  // duplicate, after the request was done; tear, after half was stored; lose, instead of the
  // request. If it returns, the fault goes on as without it.
  using Hook = std::function<void()>;

  // `inner` must outlive this.
  explicit FaultyStore(ObjectStore& inner) : inner_(inner) {}

  // Plans what happens to request `number`, in place of an earlier plan for it.
  void inject(int64_t number, Fault fault, Hook instead_of_failing = {});
  // Fault::delay by a clock, which must outlive this.
  void inject_delay(int64_t number, Clock& clock, Nanoseconds duration);

  // How many requests there have been.
  int64_t requests() const;
  // "put checkpoints/1", one for each request, for saying which one it was.
  std::vector<std::string> history() const;

  Result<Bytes> get(const std::string& name) override;
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override;
  Status put(const std::string& name, BytesView bytes) override;
  Status create(const std::string& name, BytesView bytes) override;
  Result<ObjectInfo> stat(const std::string& name) override;
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override;
  Status remove(const std::string& name) override;
  // Not a request: whoever writes to that file (record_log.h) meets no faults.
  std::optional<std::filesystem::path> local_path(const std::string& name) const override;

 private:
  struct Plan {
    Fault fault;
    Hook hook;
  };

  // Numbers the request and takes its plan, if there is one.
  std::optional<Plan> next(std::string_view verb, const std::string& name);
  // Does `request`, which returns some Result, as the plan says. For verbs that write nothing.
  template <typename Request>
  auto perform(std::string_view verb, const std::string& name, Request request)
      -> decltype(request());
  // `request` takes the bytes to write and returns a Status.
  template <typename Request>
  Status perform_write(std::string_view verb, const std::string& name, BytesView bytes,
                       Request request);

  ObjectStore& inner_;

  mutable Mutex mutex_;
  std::map<int64_t, Plan> plans_ GUARDED_BY(mutex_);
  std::vector<std::string> history_ GUARDED_BY(mutex_);
};

}  // namespace tern
