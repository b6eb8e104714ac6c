// The one door to bytes that must last: data, checkpoints, ledgers. Start here for storage.
//
// Objects are whole: a reader sees all of an object or none of it, also after a crash. There is no
// directory, no rename, no partial write. Everything above rests on one primitive, create(), which
// succeeds for exactly one of any number of callers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

struct ObjectInfo {
  std::string name;
  int64_t size_bytes = 0;

  bool operator==(const ObjectInfo&) const = default;
};

// Bytes [offset, offset + length) of an object.
struct ObjectRange {
  std::string name;
  int64_t offset = 0;
  int64_t length = 0;
};

// Takes a range piece by piece; `at` is a piece's place in it. An error ends the reading.
using RangeSink = std::function<Status(int64_t at, BytesView piece)>;

// Names are '/'-separated, relative, UTF-8 without control characters, at most 900 bytes, each part
// at most 255 bytes and none empty, "." or "..". Where names are files, a name cannot also be a
// folder: "a" and "a/b" never meet in one store.
// A bad name is `invalid`. Safe from any thread; every call may block.
// Every implementation passes object_store_contract.h.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // The whole object, or not_found.
  virtual Result<Bytes> get(const std::string& name) = 0;
  // Bytes [offset, offset + length), cut at the object's end; `invalid` if offset is past the end.
  virtual Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) = 0;
  // The same without holding it; returns how many bytes there were. They come one piece after
  // another; from a bucket as they arrive, and all once more after a broken connection or a
  // doubtful answer. After an error some may have come.
  virtual Result<int64_t> get_range_to(const std::string& name, int64_t offset, int64_t length,
                                       const RangeSink& sink);
  // Each as get_range(), in their order; a bucket asks for many at once.
  virtual std::vector<Result<Bytes>> get_ranges(std::span<const ObjectRange> ranges);
  // Writes or replaces. When it returns, the object is durable.
  virtual Status put(const std::string& name, BytesView bytes) = 0;
  // Writes only if the name is free, else already_exists. Of many callers exactly one succeeds.
  virtual Status create(const std::string& name, BytesView bytes) = 0;
  virtual Result<ObjectInfo> stat(const std::string& name) = 0;
  // All objects whose name begins with `prefix` (any text, not only whole parts), sorted by name.
  virtual Result<std::vector<ObjectInfo>> list(const std::string& prefix) = 0;
  // Removing what is not there succeeds.
  virtual Status remove(const std::string& name) = 0;
  // Each as remove(); a bucket takes many at once. All are tried, and the first failure returned.
  virtual Status remove_all(std::span<const std::string> names);

  // Where the object is, or would be, as a plain file on this machine; nothing for a bucket. Lets
  // growing records be one file (record_log.h) and tells people where to look.
  virtual std::optional<std::filesystem::path> local_path(const std::string& name) const = 0;
};

// `invalid` with the reason, if `name` is not a legal object name. Called by every implementation.
Status check_object_name(const std::string& name);

// `invalid` if [offset, offset + length) does not begin inside (or at the end of) the object. The
// end is not checked: get_range() cuts there.
Status check_object_range(const std::string& name, int64_t offset, int64_t length,
                          int64_t size_bytes);

}  // namespace tern
