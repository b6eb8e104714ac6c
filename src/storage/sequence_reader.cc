#include "storage/sequence_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/hash.h"

namespace tern {
namespace {

Error blob_damage(const Blob& blob, std::string_view reason) {
  return fail(Code::corrupt, fmt::format("blob {} {}", blob.object, reason));
}

Result<Bytes> read_blob(ObjectStore& store, const Blob& blob) {
  Result<Bytes> bytes = store.get(blob.object);
  if (!bytes) {
    if (bytes.error().code == Code::not_found) return blob_damage(blob, "is missing");
    return bytes.error().at("read blob " + blob.object);
  }
  const int64_t size_bytes = static_cast<int64_t>(bytes->size());
  if (size_bytes != blob.size_bytes) {
    return blob_damage(blob, fmt::format("is damaged: it has {} bytes instead of {}", size_bytes,
                                         blob.size_bytes));
  }
  if (to_hex(sha256(*bytes)) != blob.sha256)
    return blob_damage(blob, "is damaged: its hash differs");
  return bytes;
}

Result<std::vector<Bytes>> read_blobs(ObjectStore& store, const SequenceRecord& record) {
  std::vector<Bytes> blobs;
  for (const Blob& blob : record.blobs) {
    ASSIGN_OR_RETURN(Bytes bytes,
                     read_blob(store, blob).at(fmt::format("checkpoint {}", record.number)));
    blobs.push_back(std::move(bytes));
  }
  return blobs;
}

}  // namespace

bool looks_pruned(const ObjectInfo& object, int64_t number) {
  const SequenceRecord pruned{.number = number, .kind = RecordKind::pruned};
  return object.size_bytes == static_cast<int64_t>(format_record(pruned).size());
}

std::vector<int64_t> record_numbers(const std::vector<ObjectInfo>& objects) {
  std::vector<int64_t> numbers;
  for (const ObjectInfo& object : objects) {
    if (const std::optional<int64_t> number = record_number(object.name))
      numbers.push_back(*number);
  }
  // A store sorts by name, which is the order of numbers only up to eight digits.
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Result<SequenceRecord> read_record(ObjectStore& store, int64_t number) {
  const Result<Bytes> bytes = store.get(record_object(number));
  if (bytes) return parse_record(*bytes, number);
  const Error error = bytes.error().at(fmt::format("read record {}", number));
  // Records are never removed, so one that was listed and is gone was lost.
  return error.code == Code::not_found ? Error{Code::corrupt, error.message} : error;
}

Result<NewestCheckpoint> newest_checkpoint(ObjectStore& store) {
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store.list(""));
  std::vector<int64_t> numbers = record_numbers(objects);
  std::reverse(numbers.begin(), numbers.end());
  NewestCheckpoint newest;
  for (int64_t number : numbers) {
    Result<SequenceRecord> record = read_record(store, number);
    if (record && record->kind != RecordKind::checkpoint) continue;
    Result<std::vector<Bytes>> blobs =
        record ? read_blobs(store, *record) : Result<std::vector<Bytes>>(record.error());
    if (blobs) {
      newest.found = FoundCheckpoint{std::move(*record), std::move(*blobs)};
      return newest;
    }
    if (blobs.error().code != Code::corrupt) return blobs.error();
    newest.damaged.push_back({number, blobs.error()});
  }
  return newest;
}

Result<FoundCheckpoint> read_checkpoint(ObjectStore& store, int64_t number) {
  const auto dropped = [number] {
    return fail(Code::not_found, fmt::format("record {} holds no checkpoint", number));
  };
  ASSIGN_OR_RETURN(SequenceRecord record, read_record(store, number));
  if (record.kind != RecordKind::checkpoint) return dropped();
  Result<std::vector<Bytes>> blobs = read_blobs(store, record);
  if (blobs) return FoundCheckpoint{std::move(record), std::move(*blobs)};
  // Retention replaces the record before it removes blobs, so a second look tells it from damage.
  const Result<SequenceRecord> again = read_record(store, number);
  if (again && again->kind != RecordKind::checkpoint) return dropped();
  return blobs.error();
}

Result<CheckpointList> list_checkpoints(ObjectStore& store) {
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store.list(""));
  std::vector<int64_t> numbers;
  for (const ObjectInfo& object : objects) {
    const std::optional<int64_t> number = record_number(object.name);
    if (number && !looks_pruned(object, *number)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  CheckpointList list;
  for (int64_t number : numbers) {
    Result<SequenceRecord> record = read_record(store, number);
    if (!record && record.error().code != Code::corrupt) return record.error();
    if (!record) {
      list.damaged.push_back({number, record.error()});
    } else if (record->kind == RecordKind::checkpoint) {
      list.checkpoints.push_back(std::move(*record));
    }
  }
  return list;
}

Status verify_blobs(ObjectStore& store, const SequenceRecord& checkpoint) {
  for (const Blob& blob : checkpoint.blobs) {
    RETURN_IF_ERROR(read_blob(store, blob).at(fmt::format("checkpoint {}", checkpoint.number)));
  }
  return {};
}

Result<NewestRecord> newest_record(ObjectStore& store) {
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, store.list(""));
  std::vector<int64_t> numbers = record_numbers(objects);
  std::reverse(numbers.begin(), numbers.end());
  NewestRecord newest;
  for (int64_t number : numbers) {
    newest.number = std::max(newest.number, number);
    Result<SequenceRecord> record = read_record(store, number);
    if (!record && record.error().code != Code::corrupt) return record.error();
    if (!record) newest.damaged.push_back({number, record.error()});
    // Retention never drops the newest records, so only damage makes this go on.
    if (!record || record->kind == RecordKind::pruned) continue;
    newest.record = std::move(*record);
    break;
  }
  return newest;
}

}  // namespace tern
