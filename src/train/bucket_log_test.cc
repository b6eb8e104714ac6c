#include "train/bucket_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class BucketLogTest : public testing::Test {
 protected:
  std::vector<std::string> lines() { return read_records(run_, "log.txt").value(); }

  SimClock clock_;
  MemoryStore run_;
  Log log_{clock_, Level::error};
};

TEST_F(BucketLogTest, LinesAreWrittenTogetherWhenItIsTime) {
  BucketLog file(run_, clock_, log_);
  log_.info("train", "one");
  EXPECT_TRUE(run_.list("")->empty()) << "who logs does not write";
  file.write_if_due();
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("one"))) << "the first at once";
  log_.info("train", "two");
  log_.warn("train", "three");
  file.write_if_due();
  EXPECT_EQ(run_.list("")->size(), 1U);
  clock_.advance(std::chrono::seconds(30));
  file.write_if_due();
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("one"), HasSubstr("two"), HasSubstr("three")));
  EXPECT_EQ(run_.list("")->size(), 2U);
}

TEST_F(BucketLogTest, ABucketThatIsAwayCostsNoLine) {
  FaultyStore faulty(run_);
  BucketLog file(faulty, clock_, log_);
  faulty.inject(1, Fault::fail_before);
  faulty.inject(3, Fault::fail_before);
  log_.info("train", "one");
  file.write();
  file.write();
  log_.info("train", "two");
  file.write();
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("one"), HasSubstr("two")));
}

TEST_F(BucketLogTest, TheLogMayOutliveIt) {
  {
    BucketLog file(run_, clock_, log_);
  }
  log_.info("train", "after");
  EXPECT_TRUE(run_.list("")->empty());
}

}  // namespace
}  // namespace tern
