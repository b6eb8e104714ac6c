// The run's sequence: numbered create-only records that are lease and checkpoints in one.
// Format: docs/format_checkpoint.md.
//
// A process takes a run by creating the next number; it publishes a checkpoint by creating the next
// number. Whoever finds its next number taken has lost the run and stops before publishing
// anything. So two processes may believe for a while that they hold a run, but only one line of
// records can grow, and no clock is part of that. Clocks decide only when a take-over may be tried.
//
// Blobs (the weights) are put before the record that names them, under names made of the holder's
// own lease number and their hash: an old holder that wakes up can neither publish nor remove what
// its successor has written. Numbers are never reused: a record that retention drops is replaced by
// a few bytes that say so.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/result.h"
#include "storage/holder.h"
#include "storage/object_store.h"
#include "storage/options.h"
#include "storage/sequence_reader.h"
#include "storage/sequence_record.h"

namespace tern {

// The holder's side. Owned by the step loop; not thread-safe. Every call talks to the store.
class Sequence {
 public:
  struct Setup {
    ObjectStore* store = nullptr;  // the run's checkpoints/, outlives the sequence
    Clock* clock = nullptr;        // outlives the sequence
    Holder me;
    LeaseOptions lease;
    CheckpointOptions checkpoint;
    // Most machines of our group are with us, or its holder is known to be dead: a holder of the
    // same group on another machine is not waited for, and one on this machine not for ever. Should
    // it live, cut off, it has lost the run and finds that out when it next writes a record.
    bool takes_from_own_group = false;
    // Told once when take() begins to wait for a holder that may be alive elsewhere.
    std::function<void(const Holder& holder, Milliseconds term)> on_wait;
  };

  // Takes the run. At once if nobody holds it, it was released, or its holder was on this machine
  // and is dead; else after the term has passed without a new record. failed_precondition, naming
  // the holder, if that one is alive, unless it is of our group: then it is waited for, or the run
  // taken from it (takes_from_own_group). `cancelled` if stopped while it waits. Also clears blobs
  // that dead holders never published, unless a record is damaged: those blobs may be all that is
  // left.
  static Result<std::unique_ptr<Sequence>> take(Setup setup, std::stop_token stop);

  // Puts the blobs, then creates the record: the commit. Returns its number. `aborted`, naming the
  // new holder, if the run was lost: stop at once. On any other error the run may go on: the
  // previous checkpoint is still there. If the reply to the commit was lost this one is there too,
  // which the next call finds out by itself. `invalid` if `state` is no JSON object.
  Result<int64_t> publish(std::string state, const std::vector<Bytes>& blobs, bool best);

  // Drops what retention does not keep. Apart from publish(), because a failure here only costs
  // space: the next call goes on with it. Drops nothing while fewer than `keep` checkpoints are
  // there, nor after a failed publish() until another record was written; and never a damaged
  // record nor a blob that one may name. `corrupt`, once, if a checkpoint that the store
  // acknowledged is not in it: older ones are kept in its place.
  Status prune();

  // Writes a lease record if a third of the term has passed since our last record, and a sixth
  // since the last that could not be written. `aborted` as above.
  Status renew_if_due();

  // Writes a lease record now, due or not: once it is there, nobody had taken the run before it.
  // For a holder that is about to write elsewhere in the run. `aborted` as above.
  Status confirm();

  // Says that the holder left on purpose, so that the next one need not wait. Last call.
  Status release();

  int64_t lease_number() const { return lease_; }

 private:
  // What retention must know of a record that is not pruned.
  struct Kept {
    bool damaged = false;     // never dropped: it may be what can be rescued
    bool checkpoint = false;  // and readable
    bool best = false;
    bool is_there = false;        // seen in the store, its blobs too, since it was written or found
    std::set<std::string> blobs;  // the objects that it names; if it is damaged, that it may name
  };

  static Kept kept_of(const SequenceRecord& record);
  explicit Sequence(Setup setup) : setup_(std::move(setup)) {}
  bool is_free(const NewestRecord& newest) const;
  bool is_of_own_group(const NewestRecord& newest) const;
  Status wait_until_free(bool& told, std::stop_token stop);
  Result<int64_t> append(SequenceRecord record);
  Status pass_occupied(int64_t number, const Bytes& existing);
  void note(const SequenceRecord& record);
  Status clear_unpublished_blobs();
  Status look_for(int64_t number, Kept& kept) const;
  Status drop(int64_t number, const std::set<std::string>& referenced);
  std::set<std::string> blobs_kept(int64_t oldest, int64_t best) const;

  const Setup setup_;
  int64_t lease_ = 0;  // our lease record's number
  int64_t last_ = 0;   // highest number we know to be taken
  Nanoseconds last_written_{0};
  std::optional<Nanoseconds> last_failed_;
  bool unsure_ = false;  // an append() failed: its record may have been written all the same
  // Filled by one scan after take() and kept up by append(): nobody else writes while we hold the
  // run, so retention need not list and read the store each time. As large as what is not pruned.
  bool scanned_ = false;
  std::map<int64_t, Kept> kept_;
  std::set<std::string> put_blobs_;  // ours since the last prune(): published, or waste
};

}  // namespace tern
