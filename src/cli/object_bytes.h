// The bytes of an object of any size, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>

#include "core/bytes.h"
#include "core/mutex.h"
#include "core/result.h"
#include "storage/file_door.h"
#include "storage/object_store.h"

namespace tern {

// Files that are mapped: parts of them can leave the process's memory, and come back when they are
// looked at. Safe from any thread.
class MappedFiles {
 public:
  void add(BytesView file);
  void remove(BytesView file);
  // Of bytes that are no part of a mapped file nothing becomes; of others, whole pages go.
  void let_go(BytesView bytes);

 private:
  Mutex mutex_;
  std::map<const char*, size_t> files_ GUARDED_BY(mutex_);  // begin and size
};

// How much is moved at once: at most in_flight_max parts are in memory.
struct MoveOptions {
  int64_t part_bytes = int64_t{16} << 20;
  int64_t in_flight_max = 16;
  MappedFiles* mapped = nullptr;  // knows the files that are open, if it is given; outlives them
};

// Called with bytes that have arrived, from any thread.
using OnBytes = std::function<void(int64_t bytes)>;

// Reads the object by ranges, many at once, and writes them into the file. `corrupt` if the object
// ends before, or has grown; `cancelled` once `stop` fires. Blocks; uses threads of its own.
Status download(ObjectStore& store, const ObjectInfo& object, int fd, const MoveOptions& options,
                const std::stop_token& stop, const OnBytes& on_bytes);

// All bytes of an object, to be looked at: a file of this machine and an object that is larger than
// a part are mapped, the latter from a file without a name that is gone with this.
class ObjectBytes {
 public:
  static Result<std::unique_ptr<ObjectBytes>> open(ObjectStore& store, const ObjectInfo& object,
                                                   const MoveOptions& options,
                                                   const std::stop_token& stop);
  ~ObjectBytes();
  ObjectBytes(const ObjectBytes&) = delete;
  ObjectBytes& operator=(const ObjectBytes&) = delete;

  BytesView view() const { return view_; }
  // Whether the bytes are the same. Of mapped files no more than a part each is kept in memory.
  bool equals(const ObjectBytes& other) const;

 private:
  explicit ObjectBytes(const MoveOptions& options) : options_(options) {}
  void let_go(BytesView part) const;
  Status map(int fd, int64_t size_bytes, const std::string& name);

  const MoveOptions options_;
  Bytes bytes_;
  void* mapping_ = nullptr;
  BytesView view_;
};

// A file without a name, in the folder for temporary files.
Result<FileDescriptor> open_nameless_file();

}  // namespace tern
