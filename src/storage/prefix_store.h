// A part of another store that looks like a whole one: "a" here is "PREFIX/a" there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace tern {

// Safe from any thread; blocks and fails as the inner store does. The joined name counts against
// the limit on names.
//
//   PrefixStore run(bucket, "runs/demo");
//   run.get("run.toml");  // runs/demo/run.toml
class PrefixStore final : public ObjectStore {
 public:
  // `inner` must outlive this. An empty prefix is the whole store; a '/' at its end is optional.
  PrefixStore(ObjectStore& inner, std::string prefix);
  // The same, and owns the inner store.
  PrefixStore(std::unique_ptr<ObjectStore> inner, std::string prefix);

  Result<Bytes> get(const std::string& name) override;
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override;
  Result<int64_t> get_range_to(const std::string& name, int64_t offset, int64_t length,
                               const RangeSink& sink) override;
  std::vector<Result<Bytes>> get_ranges(std::span<const ObjectRange> ranges) override;
  Status put(const std::string& name, BytesView bytes) override;
  Status create(const std::string& name, BytesView bytes) override;
  Result<ObjectInfo> stat(const std::string& name) override;
  // Names come back without the prefix.
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override;
  Status remove(const std::string& name) override;
  Status remove_all(std::span<const std::string> names) override;
  std::optional<std::filesystem::path> local_path(const std::string& name) const override;

 private:
  const std::shared_ptr<ObjectStore> owned_;  // null where the inner store is somebody else's
  ObjectStore& inner_;
  const std::string prefix_;  // empty, or with a '/' at its end
};

}  // namespace tern
