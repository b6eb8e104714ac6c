#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "cli/data_commands.h"
#include "cli/import_request.h"
#include "cli/test_run.h"
#include "dataset/index.h"
#include "image/jpeg.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class DataImportTest : public testing::Test {
 protected:
  // A folder per class, five images each.
  void SetUp() override {
    pthread_sigmask(SIG_BLOCK, nullptr, &signals_);
    for (const std::string name : {"ant", "bee"}) {
      for (int i = 0; i < 5; ++i) {
        runs_.write("photos/" + name, std::to_string(i) + ".jpg", jpeg(static_cast<uint8_t>(i)));
      }
    }
  }
  // The command holds signals back, which is for its process and not for ours.
  void TearDown() override { pthread_sigmask(SIG_SETMASK, &signals_, nullptr); }
  static std::string jpeg(uint8_t value) {
    const Pixels pixels{.size = {40, 30}, .rgb = std::vector<uint8_t>(40 * 30 * 3, value)};
    return *encode_jpeg(pixels, 90);
  }
  std::string at(const std::string& name) const { return (runs_ / name).string(); }

  void expect_invalid(const Arguments& arguments, const std::string& because) {
    const Result<int> result = data_import_command({}, arguments);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::invalid);
    EXPECT_THAT(result.error().message, HasSubstr(because));
    EXPECT_FALSE(fs::exists(at("dst")));
  }

  sigset_t signals_{};
  TestRuns runs_;
  SimClock clock_;
  Log log_{clock_, Level::error};
};

TEST_F(DataImportTest, MistakesAreFoundBeforeAnythingIsTouched) {
  expect_invalid({}, "import what?");
  expect_invalid({at("photos")}, "import to where?");
  expect_invalid({at("photos"), at("dst"), "--pack", "jpeg"}, "short:256:q90");
  expect_invalid({at("photos"), at("dst"), "--pack", ""}, "no representation");
  expect_invalid({at("photos"), at("dst"), "--test-share", "1"}, "--test-share");
  expect_invalid({at("photos"), at("dst"), "--test-share", "nan"}, "--test-share");
  expect_invalid({at("photos"), at("dst"), "--threads", "0"}, "--threads");
  expect_invalid({at("photos"), at("dst"), "--sha256", "abc"}, "64 hex digits");
  expect_invalid({at("photos"), at("dst"), "--sha256", std::string(64, 'a')}, "for one file");
  for (const std::string scheme : {"s3", "gs", "az", "S3"}) {
    expect_invalid({scheme + "://bucket/photos", at("dst")},
                   "is in a bucket, and tern imports what is on this machine; fetch it first");
  }
  expect_invalid({"ftp://a.org/photos.tar", at("dst")}, "ftp:// is not fetched, https:// and");
  expect_invalid({"file://photos", at("dst")}, "file:///absolute/path");
  expect_invalid({"file://" + at("photos"), "s3://bucket/set"},
                 "`tern data import " + at("photos") +
                     " DIR --pack orig`, `tern store cp --recursive DIR s3://bucket/set`");
}

TEST_F(DataImportTest, ADestinationInsideTheSourceIsRefused) {
  const Result<ImportResult> result = import_as_requested(
      {.source = at("photos"), .destination = at("photos/ant/dst")}, log_, clock_, {});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("would find itself"));
}

TEST_F(DataImportTest, TellsWhatThereIsAndWhatToDoNext) {
  runs_.write("photos/bee", "torn.jpg", jpeg(9).substr(0, 200));
  const std::string out =
      output_of([&] { return data_import_command({}, {at("photos"), at("dst")}); });
  EXPECT_THAT(out, HasSubstr("10 samples for training, 0 for testing, 2 classes"));
  EXPECT_THAT(out, HasSubstr("1 bad sample was left out:"));
  EXPECT_THAT(out, HasSubstr("bee/torn.jpg: "));
  EXPECT_THAT(out, HasSubstr("samples/s"));
  EXPECT_THAT(out, HasSubstr("--set data.path=" + at("dst")));
  const auto index = DatasetIndex::open(at("dst") + "/dataset.tern");
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_THAT(out, HasSubstr("id " + (*index)->id().substr(0, 16) + "\n"));
  EXPECT_EQ((*index)->about().root, at("photos"));
}

TEST_F(DataImportTest, AShareForTestingThatChangesNothingIsSaid) {
  for (const std::string split : {"train", "val"}) {
    runs_.write("split/" + split + "/ant", "1.jpg", jpeg(1));
    runs_.write("split/" + split + "/bee", "2.jpg", jpeg(2));
  }
  for (const std::string source : {"split", "photos"}) {
    testing::internal::CaptureStderr();
    output_of([&] {
      return data_import_command({}, {at(source), at("dst-" + source), "--test-share", "0.4"});
    });
    const std::string told = testing::internal::GetCapturedStderr();
    const bool is_said = told.find("--test-share changes nothing") != std::string::npos;
    EXPECT_EQ(is_said, source == "split") << told;
  }
}

TEST_F(DataImportTest, PacksWhatWasAskedFor) {
  const std::string out = output_of([&] {
    return data_import_command({}, {at("photos"), at("dst"), "--pack", "short:16:q80",
                                    "--test-share", "0.4", "--threads", "2"});
  });
  EXPECT_THAT(out, Not(HasSubstr("bad samples")));
  const auto index = DatasetIndex::open(at("dst") + "/dataset.tern");
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ((*index)->about().representation, "short:16:q80");
  EXPECT_EQ((*index)->entry(0).width, 21);
  EXPECT_EQ((*index)->samples(), 10);
  EXPECT_GT((*index)->count(Split::test), 0);
}

TEST(FileNameOf, IsTheLastPartOfTheAddress) {
  EXPECT_EQ(file_name_of("https://a.org/x/cifar-10-binary.tar.gz"), "cifar-10-binary.tar.gz");
  EXPECT_EQ(file_name_of("https://a.org/tiny.zip?download=1#top"), "tiny.zip");
  for (const std::string odd : {"https://a.org", "https://a.org/", "https://a.org/..",
                                "https://a.org/.hidden", "https://a.org/x.part"}) {
    EXPECT_EQ(file_name_of(odd), "data") << odd;
  }
}

}  // namespace
}  // namespace tern
