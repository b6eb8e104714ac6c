// An ObjectStore in this process's memory: for tests, and for what need not outlive the process.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "storage/object_store.h"

namespace tern {

// Safe from any thread; never blocks on the outside world. Fails only on what the caller asks.
class MemoryStore final : public ObjectStore {
 public:
  Result<Bytes> get(const std::string& name) override;
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override;
  Status put(const std::string& name, BytesView bytes) override;
  Status create(const std::string& name, BytesView bytes) override;
  Result<ObjectInfo> stat(const std::string& name) override;
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override;
  Status remove(const std::string& name) override;
  std::optional<std::filesystem::path> local_path(const std::string& name) const override;

 private:
  Mutex mutex_;
  std::map<std::string, Bytes> objects_ GUARDED_BY(mutex_);
};

}  // namespace tern
