// Reading a run's sequence: needs no lease and changes nothing. Format: docs/format_checkpoint.md.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "storage/object_store.h"
#include "storage/sequence_record.h"

namespace tern {

// A verified checkpoint as found in a store.
struct FoundCheckpoint {
  SequenceRecord record;
  std::vector<Bytes> blobs;  // in the order of record.blobs
};

// A record or blob that did not verify.
struct Damage {
  int64_t number = 0;
  Error error;
};

struct NewestCheckpoint {
  std::optional<FoundCheckpoint> found;  // nothing: no checkpoint verifies
  std::vector<Damage> damaged;           // newer ones that were skipped, newest first
};

// The checkpoint with the highest number that verifies, blobs included.
Result<NewestCheckpoint> newest_checkpoint(ObjectStore& store);

// One checkpoint, its blobs verified. `corrupt` names what is damaged; not_found if the record is
// no checkpoint, or no longer: the holder's retention may drop it while we read.
Result<FoundCheckpoint> read_checkpoint(ObjectStore& store, int64_t number);

struct CheckpointList {
  std::vector<SequenceRecord> checkpoints;  // lowest number first; their blobs are not looked at
  std::vector<Damage> damaged;  // records that cannot be read: each may have been a checkpoint
};

// All checkpoints that retention has kept until now. A holder may drop one while this reads.
Result<CheckpointList> list_checkpoints(ObjectStore& store);

// Reads every blob of a checkpoint, one at a time, and checks it: `corrupt` names the first that is
// missing or damaged. Also if retention dropped the checkpoint meanwhile: its record says so then.
Status verify_blobs(ObjectStore& store, const SequenceRecord& checkpoint);

struct NewestRecord {
  int64_t number = 0;                    // the highest taken, whatever it holds; 0: none is
  std::optional<SequenceRecord> record;  // the newest that can be read and is not pruned
  std::vector<Damage> damaged;           // newer ones that were skipped, newest first
};

// Who wrote last, and what. Reads newest first and no further than it must.
Result<NewestRecord> newest_record(ObjectStore& store);

// One record. `corrupt` is damage (also a record that was listed and is not there); any other error
// is the store's, and says nothing about the record.
Result<SequenceRecord> read_record(ObjectStore& store, int64_t number);

// True if this record, by its size, is what retention left of one: a tombstone. Those of one number
// are the same bytes whoever writes them, and shorter than any record with a holder; a run of weeks
// has a hundred thousand, which need not be read.
bool looks_pruned(const ObjectInfo& object, int64_t number);

// The numbers of the records among `objects`, lowest first.
std::vector<int64_t> record_numbers(const std::vector<ObjectInfo>& objects);

}  // namespace tern
