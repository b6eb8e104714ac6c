// A part of another store that looks like a whole one: "a" here is "PREFIX/a" there.
#pragma once

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

  Result<Bytes> get(const std::string& name) override;
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override;
  Status put(const std::string& name, BytesView bytes) override;
  Status create(const std::string& name, BytesView bytes) override;
  Result<ObjectInfo> stat(const std::string& name) override;
  // Names come back without the prefix.
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override;
  Status remove(const std::string& name) override;
  std::optional<std::filesystem::path> local_path(const std::string& name) const override;

 private:
  ObjectStore& inner_;
  const std::string prefix_;  // empty, or with a '/' at its end
};

}  // namespace tern
