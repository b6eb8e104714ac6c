// One numbered record of a run's sequence, and its bytes. Format: docs/format_checkpoint.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "storage/holder.h"

namespace tern {

// Stored as text (docs/format_checkpoint.md).
enum class RecordKind { lease, checkpoint, release, pruned };

struct Blob {
  std::string object;  // "blobs/00000007/<sha256>"
  std::string sha256;
  int64_t size_bytes = 0;

  bool operator==(const Blob&) const = default;
};

// A pruned record is only its number and kind: the same few bytes whoever writes them.
struct SequenceRecord {
  int64_t number = 0;
  RecordKind kind = RecordKind::lease;
  Holder holder;
  int64_t unix_ms = 0;
  int64_t lease = 0;        // number of the record by which the holder took the run
  bool best = false;        // checkpoint: the best one so far when it was written
  std::string state;        // checkpoint: a JSON object of the trainer's; opaque here
  std::vector<Blob> blobs;  // checkpoint

  bool operator==(const SequenceRecord&) const = default;
};

// A record's bytes: one line of JSON, then a line with the hash of the first. parse checks both,
// and that the number inside is the one asked for: else `corrupt`. A format newer than ours is
// failed_precondition, so that nobody mistakes it for damage.
Bytes format_record(const SequenceRecord& record);
Result<SequenceRecord> parse_record(BytesView bytes, int64_t number);
std::string record_object(int64_t number);  // "00000012.json"
// The number of a record's object; nothing if `object` is none.
std::optional<int64_t> record_number(std::string_view object);

std::string blob_object(int64_t lease, std::string_view sha256);  // "blobs/00000007/<sha256>"
// The lease number in a blob's object name; nothing if `object` is not shaped like one.
std::optional<int64_t> blob_lease(std::string_view object);

// Is `text` one JSON object, and so fit for SequenceRecord::state?
bool is_json_object(std::string_view text);

}  // namespace tern
