// Shards as files and as objects.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "dataset/shard.h"
#include "storage/file_door.h"

namespace tern {
namespace {

// A request costs a bucket's round trip, whatever its size.
constexpr int64_t kObjectChunkBytes = int64_t{8} << 20;

}  // namespace

Result<ShardBytes> open_shard(const std::filesystem::path& file) {
  auto fd = std::make_shared<FileDescriptor>(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!fd->is_open() || ::fstat(fd->get(), &info) != 0) return file_error("read", file, errno);
  ::posix_fadvise(fd->get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  const auto read = [fd, file](int64_t offset, int64_t length) -> Result<Bytes> {
    Bytes bytes(static_cast<size_t>(length), '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = ::pread(fd->get(), bytes.data() + done, bytes.size() - done,
                                  offset + static_cast<int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_error("read", file, errno);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  };
  return ShardBytes{.name = file.string(), .size_bytes = info.st_size, .read = read};
}

Result<ShardBytes> open_shard(ObjectStore& store, const std::string& object) {
  ASSIGN_OR_RETURN(const ObjectInfo info, store.stat(object));
  return ShardBytes{
      .name = object,
      .size_bytes = info.size_bytes,
      .read = [&store, object](int64_t offset,
                               int64_t length) { return store.get_range(object, offset, length); },
      .chunk_bytes = kObjectChunkBytes};
}

}  // namespace tern
