// Asks another store again when it says `unavailable`. The one place where storage retries.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "core/clock.h"
#include "storage/object_store.h"

namespace tern {

// More attempts and time ride out longer outages; less lets a doomed call fail sooner.
struct RetryOptions {
  int attempts_max = 8;            // calls of the inner store for one call, the first included
  Milliseconds total_max{60'000};  // no attempt begins later than this after the first
  Milliseconds first_delay{100};   // doubles with each further attempt,
  Milliseconds delay_max{10'000};  // up to this; the wait is a random half to whole of it
};

// Retries `unavailable` and `deadline_exceeded` (of one request), nothing else; the last error is
// returned with what was tried. Safe from any thread. A call blocks for at most total_max plus the
// time of its last attempt, and not longer than until `stop`; a create() may take twice that.
//
// A create() whose reply was lost finds the name taken when asked again. It reads the object back:
// if the bytes are ours it was we who made it. Writers who race must therefore write different
// bytes (say who they are), or more than one may believe it has won.
class RetryStore final : public ObjectStore {
 public:
  // `inner` and `clock` must outlive this. `seed` only spreads the waits of many machines.
  RetryStore(ObjectStore& inner, RetryOptions options, Clock& clock, uint64_t seed,
             std::stop_token stop = {});

  Result<Bytes> get(const std::string& name) override;
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override;
  // Those that failed are asked for again, one by one.
  std::vector<Result<Bytes>> get_ranges(std::span<const ObjectRange> ranges) override;
  Status put(const std::string& name, BytesView bytes) override;
  Status create(const std::string& name, BytesView bytes) override;
  Result<ObjectInfo> stat(const std::string& name) override;
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override;
  Status remove(const std::string& name) override;
  Status remove_all(std::span<const std::string> names) override;
  std::optional<std::filesystem::path> local_path(const std::string& name) const override;

 private:
  // Calls `request` (which returns some Result) until it says something final or a limit is hit.
  template <typename Request>
  auto retry(Request request) -> decltype(request());
  Nanoseconds delay_after(int attempts);

  ObjectStore& inner_;
  const RetryOptions options_;
  Clock& clock_;
  const uint64_t seed_;
  const std::stop_token stop_;

  std::atomic<uint64_t> delays_drawn_ = 0;
};

}  // namespace tern
