// For tests of sequences: a run in memory that holders of this and other machines take.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/hash.h"
#include "storage/memory_store.h"
#include "storage/sequence.h"

namespace tern {

inline constexpr Milliseconds kTerm{60'000};

inline Holder local_holder() { return this_process().value_or(Holder{}); }

inline Holder remote_holder(const std::string& host) {
  Holder holder = local_holder();
  holder.host = host;
  holder.boot_id = "boot of " + host;
  return holder;
}

inline Holder of_group(Holder holder, const std::string& group) {
  holder.group = group;
  return holder;
}

class SequenceTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Sequence>> try_take(Holder holder, ObjectStore& store) {
    Sequence::Setup setup{.store = &store, .clock = &clock_, .me = std::move(holder)};
    setup.lease.term = term_;
    setup.checkpoint.keep = keep_;
    setup.takes_from_own_group = takes_from_own_group_;
    setup.on_wait = [this](const Holder& other, Milliseconds) {
      waited_for_.push_back(other.host);
      if (while_waiting_) while_waiting_();
    };
    return Sequence::take(std::move(setup), stop_.get_token());
  }
  std::unique_ptr<Sequence> take(Holder holder, ObjectStore& store) {
    Result<std::unique_ptr<Sequence>> sequence = try_take(std::move(holder), store);
    EXPECT_TRUE(sequence.has_value()) << sequence.error().to_string();
    return sequence ? std::move(*sequence) : nullptr;
  }
  std::unique_ptr<Sequence> take(Holder holder) { return take(std::move(holder), store_); }

  static int64_t publish(Sequence& sequence, const std::string& text, bool best = false) {
    const Result<int64_t> number =
        sequence.publish(R"({"is":")" + text + "\"}", {text + " weights"}, best);
    EXPECT_TRUE(number.has_value()) << number.error().to_string();
    return number.value_or(0);
  }
  std::string newest() {
    const Result<NewestCheckpoint> newest = newest_checkpoint(store_);
    if (!newest || !newest->found) return "none";
    EXPECT_TRUE(newest->damaged.empty());
    return newest->found->record.state;
  }
  RecordKind kind_of(int64_t number) {
    const Result<SequenceRecord> record = read_record(store_, number);
    EXPECT_TRUE(record.has_value()) << number;
    return record ? record->kind : RecordKind::lease;
  }
  bool has_blob(int64_t lease, const std::string& text) {
    return store_.stat(blob_object(lease, to_hex(sha256(text + " weights")))).has_value();
  }
  // Right after a take() it is the number of the lease.
  static int64_t highest(ObjectStore& store) { return newest_record(store).value_or({}).number; }
  size_t blob_count() { return store_.list("blobs/")->size(); }

  MemoryStore store_;
  SimClock clock_;
  std::stop_source stop_;
  Milliseconds term_ = kTerm;
  int64_t keep_ = 3;
  bool takes_from_own_group_ = false;
  std::vector<std::string> waited_for_;
  std::function<void()> while_waiting_;
};

}  // namespace tern
