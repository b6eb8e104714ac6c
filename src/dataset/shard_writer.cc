#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "core/crc32c.h"
#include "dataset/shard.h"
#include "dataset/shard_format.h"
#include "storage/file_door.h"

namespace tern {
namespace {

constexpr mode_t kFileMode = 0666;  // less what the user's umask takes away

void append_row(Bytes& index, const ShardRecord& record) {
  const ImageInfo& info = record.info;
  ShardIndexRow row{.offset = record.offset,
                    .length = record.length,
                    .crc32c = record.crc32c,
                    .width = static_cast<uint16_t>(info.size.width),
                    .height = static_cast<uint16_t>(info.size.height),
                    .format = static_cast<uint8_t>(info.format),
                    .channels = info.channels,
                    .orientation = info.orientation,
                    .name_length = static_cast<uint16_t>(record.name.size()),
                    .class_length = static_cast<uint16_t>(record.class_name.size()),
                    .cause_length = static_cast<uint16_t>(record.bad_cause.size())};
  if (info.is_progressive) row.flags |= kShardProgressive;
  if (record.split == Split::test) row.flags |= kShardTest;
  index.append(shard_bytes_of(row));
  index.append(record.name).append(record.class_name).append(record.bad_cause);
}

}  // namespace

struct ShardWriter::State {
  std::filesystem::path file;
  std::filesystem::path part;
  FileDescriptor fd;
  Bytes buffer;  // not written yet; at most kShardChunkBytes and one record's front
  Bytes rows;
  int64_t bytes = 0;  // written or in the buffer
  int64_t rows_count = 0;
  bool finished = false;
  Status failed = {};  // the first failure: after it the file's content is not known

  Status write(BytesView out) {
    size_t written = 0;
    if (const int error = write_fully(fd.get(), out, written)) {
      failed = file_error("write", part, error);
    }
    return failed;
  }

  Status flush() {
    RETURN_IF_ERROR(write(buffer));
    buffer.clear();
    return {};
  }

  Status append(BytesView out) {
    bytes += static_cast<int64_t>(out.size());
    if (buffer.size() + out.size() > kShardChunkBytes) RETURN_IF_ERROR(flush());
    if (out.size() > kShardChunkBytes) return write(out);
    buffer.append(out);
    return {};
  }

  // A failure leaves nothing to go on with, so it is kept for all later calls.
  Status fail_with(Error error) {
    failed = std::move(error);
    return failed;
  }

  Status usable() const {
    if (!finished) return failed;
    return fail(Code::internal,
                fmt::format("{} is finished already; report this as a bug", file.string()));
  }
};

ShardWriter::ShardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

ShardWriter::~ShardWriter() {
  if (!state_->finished) ::unlink(state_->part.c_str());
}

Result<std::unique_ptr<ShardWriter>> ShardWriter::create(const std::filesystem::path& file) {
  std::filesystem::path part = file;
  part += ".part";
  FileDescriptor fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode));
  if (!fd.is_open()) return file_error("write", part, errno);
  auto state =
      std::make_unique<State>(State{.file = file, .part = std::move(part), .fd = std::move(fd)});
  state->buffer.reserve(kShardChunkBytes);
  const ShardHeader header = shard_header();
  RETURN_IF_ERROR(state->append(shard_bytes_of(header)));
  return std::unique_ptr<ShardWriter>(new ShardWriter(std::move(state)));
}

Status ShardWriter::add(ShardRecord record, BytesView payload) {
  RETURN_IF_ERROR(state_->usable());
  const bool is_bad = !record.bad_cause.empty();
  if (is_bad) record.info = ImageInfo{};
  record.offset = 0;
  record.length = static_cast<uint32_t>(payload.size());
  record.crc32c = crc32c(payload);
  std::string problem = shard_record_problem(record);
  if (payload.size() > std::numeric_limits<uint32_t>::max()) problem = "it is larger than 4 GiB";
  if (is_bad && !payload.empty()) problem = "a bad sample with a payload";
  if (state_->rows_count == std::numeric_limits<uint32_t>::max()) problem = "the shard is full";
  if (!problem.empty()) {
    return fail(Code::invalid,
                fmt::format("cannot add '{}' to {}: {}; leave it out", record.name.substr(0, 200),
                            state_->file.string(), problem));
  }
  if (!is_bad) {
    record.offset =
        static_cast<uint64_t>(state_->bytes) + sizeof(ShardRecordHead) + record.name.size();
    RETURN_IF_ERROR(state_->append(shard_record_front(record)));
    RETURN_IF_ERROR(state_->append(payload));
    RETURN_IF_ERROR(state_->append(Bytes(static_cast<size_t>(shard_padding(state_->bytes)), '\0')));
  }
  append_row(state_->rows, record);
  ++state_->rows_count;
  return {};
}

int64_t ShardWriter::bytes() const { return state_->bytes; }
int64_t ShardWriter::samples() const { return state_->rows_count; }

Status ShardWriter::finish() {
  RETURN_IF_ERROR(state_->usable());
  const uint64_t count = static_cast<uint64_t>(state_->rows_count);
  ShardFooter footer{.index_offset = static_cast<uint64_t>(state_->bytes),
                     .index_length = sizeof count + state_->rows.size(),
                     .index_crc32c = crc32c(state_->rows, crc32c(shard_bytes_of(count))),
                     .records = static_cast<uint32_t>(count)};
  kShardEndMagic.copy(footer.magic.data(), footer.magic.size());
  RETURN_IF_ERROR(state_->append(shard_bytes_of(count)));
  RETURN_IF_ERROR(state_->append(state_->rows));
  RETURN_IF_ERROR(state_->append(shard_bytes_of(footer)));
  RETURN_IF_ERROR(state_->flush());

  RealFileDoor door;
  while (::fsync(state_->fd.get()) != 0) {
    if (errno != EINTR) return state_->fail_with(file_error("sync", state_->part, errno));
  }
  if (const Status renamed = door.rename(state_->part, state_->file); !renamed) {
    return state_->fail_with(renamed.error());
  }
  state_->finished = true;
  const std::filesystem::path folder = state_->file.parent_path();
  return door.sync_folder(folder.empty() ? "." : folder);
}

}  // namespace tern
