// Each request to a bucket is paid for: what a run asks of its store, counted on the real trainer.
#include <gtest/gtest.h>

#include <algorithm>

#include "forked_run.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "storage/ledger.h"
#include "tiny_data.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

// Requests that begin with `what`, such as "get ledger.jsonl".
int64_t count(const std::vector<std::string>& requests, const std::string& what) {
  return std::ranges::count_if(
      requests, [&](const std::string& request) { return request.starts_with(what); });
}

class SpendsFewRequests : public testing::Test {
 protected:
  SpendsFewRequests() {
    write_tiny_data(scratch_ / "data", {});
    config_ = tiny_config(scratch_ / "data");
  }

  // One process in a bucket, to its end.
  std::vector<std::string> requests(int64_t steps) {
    config_.train.steps = steps;
    EXPECT_EQ(run_process(run_, config_, {.shape = StoreShape::bucket}), kExitDone);
    return requests_of(run_);
  }
  int64_t records() const {
    RealFileDoor door;
    int64_t skipped = 0;
    return std::ssize(
        read_json_records(**DiskStore::open(run_, door), kLedgerObject, skipped).value_or({}));
  }
  // Lines of accuracy.tsv without its header.
  int64_t rows() const {
    const std::string text = read_text(run_ / "accuracy.tsv");
    return std::ranges::count(text, '\n') - 1;
  }

  ScratchFolder scratch_;
  RunConfig config_;
  std::filesystem::path run_ = scratch_ / "run";
};

TEST_F(SpendsFewRequests, EachProcessReadsTheLedgerWhenItBeginsAndWhenItEndsAndNotBetween) {
  const std::vector<std::string> first = requests(24);  // 4 epochs, an evaluation after each
  EXPECT_EQ(rows(), 4);
  const int64_t written = records();
  EXPECT_EQ(count(first, "get_range ledger.jsonl.d/"), written) << "for the report";
  EXPECT_EQ(count(first, "list ledger.jsonl.d/"), 3) << "at the start, to write on, for the report";

  const std::vector<std::string> second = requests(0);  // the other 3
  EXPECT_EQ(rows(), 7) << "those of both processes";
  EXPECT_EQ(count(second, "get_range ledger.jsonl.d/"), written + records());
  EXPECT_EQ(count(second, "list ledger.jsonl.d/"), 3);
}

}  // namespace
}  // namespace tern
