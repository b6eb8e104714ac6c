#include "import/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/crc32c.h"
#include "dataset/indexed_dataset.h"
#include "dataset/shard.h"
#include "import/import_folder.h"
#include "import/test_samples.h"
#include "import/verify.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

constexpr int64_t kShardBytes = 1500;  // about six of some_samples()

class ImportTest : public testing::Test {
 protected:
  ImportOptions options(const std::string& name = "dst") const {
    return {.destination = place_ / name,
            .pack = Representation{},
            .threads = 3,
            .shard_bytes = kShardBytes,
            .tern_version = "1.2.3"};
  }
  Result<ImportResult> import(Source& source, const ImportOptions& options,
                              std::stop_token stop = {}) {
    return import_dataset(source, options, log_, clock_, std::move(stop));
  }
  // What an import of these samples that nothing disturbs leaves.
  std::map<std::string, Bytes> undisturbed(const std::vector<SourceSample>& samples) {
    MemorySource source(samples);
    EXPECT_TRUE(import(source, options("undisturbed")));
    return read_tree(place_ / "undisturbed");
  }
  // Stopped when the scan comes to that sample.
  void stop_at(int64_t number, const std::vector<SourceSample>& samples) {
    MemorySource source(samples);
    source.before = [&](int64_t at) {
      return at == number ? Status(fail(Code::unavailable, "the source went away")) : Status();
    };
    const Result<ImportResult> result = import(source, options());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "the source went away");
  }
  std::unique_ptr<DatasetIndex> index(const std::string& name = "dst") const {
    auto opened = DatasetIndex::open(place_ / name / kIndexFile);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(opened).value();
  }
  void expect_refused(Source& source, const ImportOptions& wanted, const std::string& because) {
    const auto before = read_tree(wanted.destination);
    const Result<ImportResult> result = import(source, wanted);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::failed_precondition);
    EXPECT_THAT(result.error().message, HasSubstr(because));
    EXPECT_THAT(differences(wanted.destination, before), IsEmpty());
  }

  TestPlace place_;
  SimClock clock_;
  Log log_{clock_, Level::error};
};

TEST_F(ImportTest, PackedSamplesKeepTheirOrderAndGetTheirLabels) {
  const std::vector<SourceSample> samples = some_samples(30);
  MemorySource source(samples);
  const Result<ImportResult> result = import(source, options());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->train_samples, 24);
  EXPECT_EQ(result->test_samples, 6);
  EXPECT_EQ(result->classes, 3);
  EXPECT_EQ(result->ignored, 7);
  EXPECT_EQ(result->bad + result->taken_over, 0);
  const auto made = index();
  EXPECT_EQ(result->id, made->id());
  EXPECT_THAT(made->about().classes, ElementsAre("ant", "bee", "cat"));
  EXPECT_EQ(made->about().representation, "orig");
  EXPECT_EQ(made->about().source, "samples in memory");
  EXPECT_EQ(made->about().root, "");
  EXPECT_EQ(made->about().tern_version, "1.2.3");
  EXPECT_GT(made->files(), 3);
  int64_t at = 0;
  for (const Split split : {Split::train, Split::test}) {
    for (const SourceSample& sample : samples) {
      if (sample.split != split) continue;
      const IndexEntry& entry = made->entry(at);
      EXPECT_EQ(made->name(at), sample.name);
      EXPECT_EQ(made->about().classes[entry.label], sample.class_name);
      EXPECT_EQ(entry.info(), *sample.raw);
      const Bytes shard = read_whole(place_ / "dst" / std::string(made->file_path(entry.file)));
      EXPECT_EQ(shard.substr(entry.offset, entry.length), sample.bytes);
      EXPECT_EQ(entry.crc32c, crc32c(sample.bytes));
      ++at;
    }
  }
  EXPECT_EQ(at, made->samples());
}

TEST_F(ImportTest, NothingButTheDataSetIsLeft) {
  const auto tree = undisturbed(some_samples(30));
  for (const auto& [name, bytes] : tree) {
    EXPECT_TRUE(name == kIndexFile || name.starts_with("shards/")) << name;
    EXPECT_FALSE(name.ends_with(".part")) << name;
  }
}

TEST_F(ImportTest, TheNumberOfThreadsChangesNoBit) {
  const std::vector<SourceSample> samples = some_samples(300);
  const auto expected = undisturbed(samples);
  for (const int64_t threads : {1, 8}) {
    MemorySource source(samples);
    ImportOptions wanted = options("threads" + std::to_string(threads));
    wanted.threads = threads;
    ASSERT_TRUE(import(source, wanted));
    EXPECT_THAT(differences(wanted.destination, expected), IsEmpty());
  }
}

TEST_F(ImportTest, InPlaceNothingIsCopied) {
  std::vector<SourceSample> samples = some_samples(10);
  Bytes file;
  for (SourceSample& sample : samples) {
    sample.range = FileRange{.file = "a/all.bin",
                             .offset = static_cast<int64_t>(file.size()),
                             .length = static_cast<int64_t>(sample.bytes.size())};
    file += sample.bytes;
    sample.bytes.clear();
  }
  place_.write("src/a/all.bin", file + "tail");
  MemorySource source(samples, place_ / "src");
  ImportOptions wanted = options();
  wanted.pack.reset();
  const Result<ImportResult> result = import(source, wanted);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(read_tree(place_ / "dst"), ElementsAre(Key(kIndexFile)));
  const auto made = index();
  EXPECT_EQ(made->about().root, (place_ / "src").string());
  ASSERT_EQ(made->files(), 1);
  EXPECT_EQ(made->file_path(0), "a/all.bin");
  EXPECT_EQ(made->file_bytes(0), static_cast<int64_t>(file.size()) + 4);
  EXPECT_GT(made->about().pixels_from, 0);
  for (int64_t i = 0; i < made->samples(); ++i) {
    const IndexEntry& entry = made->entry(i);
    EXPECT_EQ(entry.crc32c, crc32c(BytesView(file).substr(entry.offset, entry.length)));
  }
}

// What was fetched lies in the destination, and is moved with it.
TEST_F(ImportTest, FilesInsideOfTheDestinationMoveWithIt) {
  std::vector<SourceSample> samples = some_samples(10);
  for (SourceSample& sample : samples) {
    sample.range = FileRange{.file = sample.name, .length = std::ssize(sample.bytes)};
    place_.write("dst/source/" + sample.name, std::exchange(sample.bytes, {}));
  }
  MemorySource source(samples, place_ / "dst/source");
  ImportOptions wanted = options();
  wanted.pack.reset();
  ASSERT_TRUE(import(source, wanted));
  EXPECT_EQ(index()->about().root, "source");
  fs::rename(place_ / "dst", place_ / "moved");
  const auto moved = index("moved");
  const auto dataset = open_indexed(place_ / "moved", Split::train);
  ASSERT_TRUE(dataset) << dataset.error().message;
  Bytes buffer;
  EXPECT_TRUE((*dataset)->fetch(3, buffer));
  EXPECT_EQ((*dataset)->mean(), moved->about().mean);
  EXPECT_EQ((*dataset)->stddev().size(), 1u);
  const auto verified = verify_data_set(*find_imported(place_ / "moved"), {}, log_, clock_, {});
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(verified->damaged, 0);
}

TEST_F(ImportTest, VerifyingWhatIsGoneSaysSoOnce) {
  std::vector<SourceSample> samples = some_samples(10);
  for (SourceSample& sample : samples) {
    sample.range = FileRange{.file = sample.name, .length = std::ssize(sample.bytes)};
    place_.write("src/" + sample.name, std::exchange(sample.bytes, {}));
  }
  MemorySource source(samples, place_ / "src");
  ImportOptions wanted = options();
  wanted.pack.reset();
  ASSERT_TRUE(import(source, wanted));
  fs::rename(place_ / "src", place_ / "elsewhere");
  const auto verified = verify_data_set(*find_imported(place_ / "dst"), {}, log_, clock_, {});
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, Code::not_found);
  EXPECT_THAT(verified.error().message,
              HasSubstr("indexed in place at " + (place_ / "src").string() + ", which is gone"));
}

TEST_F(ImportTest, ACompressedSourceInPlaceIsRefusedAndLeavesNoTrace) {
  MemorySource source(some_samples(10));
  ImportOptions wanted = options();
  wanted.pack.reset();
  const Result<ImportResult> result = import(source, wanted);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::invalid);
  EXPECT_THAT(result.error().message, HasSubstr("--pack orig"));
  EXPECT_FALSE(fs::exists(wanted.destination));
}

TEST_F(ImportTest, BadSamplesAreListedWithTheirCauseAndNotPacked) {
  std::vector<SourceSample> samples = some_samples(12);
  samples[2].bytes.clear();
  samples[5].bytes.pop_back();
  samples[7].raw.reset();  // pixels are no image
  samples[9].bytes.clear();
  samples[9].bad_cause = "the source says so";
  MemorySource source(samples);
  const Result<ImportResult> result = import(source, options());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->train_samples + result->test_samples, 8);
  EXPECT_EQ(result->bad, 4);
  const auto made = index();
  const std::vector<BadSample>& bad = made->about().bad;
  ASSERT_EQ(bad.size(), 4U);
  EXPECT_EQ(bad[0], (BadSample{samples[2].name, "it is empty"}));
  EXPECT_EQ(bad[1].name, samples[5].name);
  EXPECT_THAT(bad[1].cause, HasSubstr("bytes of pixels"));
  EXPECT_EQ(bad[2].name, samples[7].name);
  EXPECT_EQ(bad[3], (BadSample{samples[9].name, "the source says so"}));
  EXPECT_EQ(result->first_bad, std::vector<BadSample>(bad.begin(), bad.begin() + 3));
}

TEST_F(ImportTest, ASourceWithoutASampleOrWithoutAGoodOneIsAnError) {
  MemorySource empty({});
  Result<ImportResult> result = import(empty, options());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::not_found);

  std::vector<SourceSample> samples = some_samples(3);
  for (SourceSample& sample : samples) sample.bytes.clear();
  MemorySource bad(samples);
  result = import(bad, options("bad"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::corrupt);
  EXPECT_THAT(result.error().message, HasSubstr("cat/0: it is empty"));
  EXPECT_FALSE(fs::exists(place_ / "bad" / kIndexFile));
}

TEST_F(ImportTest, MeanAndDeviationAreThoseOfTheTrainPixels) {
  std::vector<SourceSample> samples;
  for (int i = 0; i < 4; ++i) {
    samples.push_back(raw_sample(i, "a", i == 3 ? Split::test : Split::train, {2, 1}, 100));
  }
  samples[0].bytes = Bytes("\x00\xFF", 2);
  samples[1].bytes = Bytes("\xFF\xFF", 2);
  samples[2].bytes = Bytes("\x00\x00", 2);
  MemorySource source(samples);
  ASSERT_TRUE(import(source, options()));
  const About about = index()->about();
  EXPECT_EQ(about.pixels_from, 3);
  ASSERT_EQ(about.mean.size(), 1U);
  EXPECT_NEAR(about.mean[0], 0.5, 1e-12);
  EXPECT_NEAR(about.stddev[0], 0.5, 1e-12);

  ImportOptions wanted = options("two");
  wanted.statistics_samples = 2;  // samples 0 and 1
  ASSERT_TRUE(import(source, wanted));
  EXPECT_EQ(index("two")->about().pixels_from, 2);
  EXPECT_NEAR(index("two")->about().mean[0], 0.75, 1e-12);
  EXPECT_NEAR(index("two")->about().stddev[0], std::sqrt(0.1875), 1e-12);
}

TEST_F(ImportTest, GoesOnAfterAnErrorAtAnySample) {
  const std::vector<SourceSample> samples = some_samples(15);
  const auto expected = undisturbed(samples);
  bool took_over = false;
  for (int64_t n = 0; n < 15; ++n) {
    stop_at(n, samples);
    MemorySource source(samples);
    const Result<ImportResult> result = import(source, options());
    ASSERT_TRUE(result) << result.error().message;
    took_over = took_over || result->taken_over > 0;
    EXPECT_THAT(differences(place_ / "dst", expected), IsEmpty()) << "stopped at " << n;
    fs::remove_all(place_ / "dst");
  }
  EXPECT_TRUE(took_over);
}

TEST_F(ImportTest, StopsWhenAskedAndGoesOn) {
  const std::vector<SourceSample> samples = some_samples(400);
  const auto expected = undisturbed(samples);
  std::stop_source asked;
  MemorySource source(samples);
  source.before = [&](int64_t at) {
    if (at == 350) asked.request_stop();
    return Status();
  };
  const Result<ImportResult> stopped = import(source, options(), asked.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::cancelled);
  source.before = nullptr;
  ASSERT_TRUE(import(source, options()));
  EXPECT_THAT(differences(place_ / "dst", expected), IsEmpty());
}

TEST_F(ImportTest, ASourceThatChangedMeanwhileIsRefused) {
  const std::vector<SourceSample> samples = some_samples(30);
  stop_at(29, samples);
  std::vector<SourceSample> renamed = samples;
  renamed[3].name = "another";
  MemorySource other_name(renamed);
  expect_refused(other_name, options(), "its sample 3 is now another");
  std::vector<SourceSample> longer = samples;
  longer[2].bytes += "x";
  MemorySource other_length(longer);
  expect_refused(other_length, options(), "bee/2 had");
  MemorySource shorter({samples.begin(), samples.begin() + 2});
  expect_refused(shorter, options(), "it has 2 samples");
  MemorySource same(samples);
  EXPECT_TRUE(import(same, options()));
}

// Names and sizes are those that were packed; what the files hold need not be.
TEST_F(ImportTest, ASourceThatWasWrittenMeanwhileIsRefused) {
  const std::vector<SourceSample> samples = some_samples(30);
  stop_at(29, samples);
  MemorySource source(samples);
  source.written = "tomorrow";
  expect_refused(source, options(), "a file of it was written, added or removed since; remove");
  source.written = "today";
  EXPECT_TRUE(import(source, options()));
}

TEST_F(ImportTest, AnotherPlanIsRefusedOnceShardsAreThere) {
  const std::vector<SourceSample> samples = some_samples(30);
  stop_at(29, samples);
  MemorySource source(samples);
  ImportOptions other = options();
  other.pack->kind = Representation::Kind::raw;
  expect_refused(source, other, "representation was orig, is raw");
  other = options();
  other.test_share = 0.5;
  expect_refused(source, other, "test_share was 0.0, is 0.5");
}

TEST_F(ImportTest, FoldersOfOthersAreLeftAlone) {
  MemorySource source(some_samples(10));
  place_.write("dst/thesis.txt", "x");
  expect_refused(source, options(), "it holds thesis.txt");
  place_.write("old/shards/00000.shard", "x");
  expect_refused(source, options("old"), "it holds shards");
  ASSERT_TRUE(import(source, options("done")));
  expect_refused(source, options("done"), "holds a finished data set");
}

TEST_F(ImportTest, OfTwoImportsIntoOneFolderOneWins) {
  MemorySource source(some_samples(30));
  Result<ImportResult> second = ImportResult();
  source.before = [&](int64_t at) {
    if (at != 20) return Status();
    MemorySource same(some_samples(30));
    second = import(same, options());
    return Status();
  };
  ASSERT_TRUE(import(source, options()));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::failed_precondition);
  EXPECT_THAT(second.error().message, HasSubstr("another import works on"));
  EXPECT_THAT(read_tree(place_ / "dst"), Not(Contains(Key("import.lock"))));
}

TEST_F(ImportTest, ADamagedShardAndThoseAfterItArePackedAgain) {
  const std::vector<SourceSample> samples = some_samples(30);
  const auto expected = undisturbed(samples);
  stop_at(29, samples);
  const fs::path shard = place_ / "dst" / ImportFolder::shard_name(1);
  Bytes bytes = read_whole(shard);
  place_.write("dst/" + ImportFolder::shard_name(1), bytes.substr(0, bytes.size() - 9));
  MemorySource source(samples);
  const Result<ImportResult> result = import(source, options());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(differences(place_ / "dst", expected), IsEmpty());
}

TEST_F(ImportTest, ASampleThatReadsBackDifferentlyIsFoundAndPackedAgain) {
  const std::vector<SourceSample> samples = some_samples(30);
  const auto expected = undisturbed(samples);
  stop_at(29, samples);
  const fs::path shard = place_ / "dst" / ImportFolder::shard_name(1);
  const ShardRecord damaged = read_shard_index(shard)->at(2);
  Bytes bytes = read_whole(shard);
  bytes[damaged.offset + 1] = static_cast<char>(bytes[damaged.offset + 1] ^ 1);
  place_.write("dst/" + ImportFolder::shard_name(1), bytes);
  MemorySource source(samples);
  const Result<ImportResult> result = import(source, options());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::corrupt);
  EXPECT_THAT(result.error().message, HasSubstr(damaged.name));
  EXPECT_FALSE(fs::exists(place_ / "dst" / kIndexFile));
  ASSERT_TRUE(import(source, options()));
  EXPECT_THAT(differences(place_ / "dst", expected), IsEmpty());
}

TEST_F(ImportTest, AFileThatIsGoneEndsTheImportAndIsNoBadSample) {
  std::vector<SourceSample> samples = some_samples(10);
  samples[4].range = FileRange{.file = "gone.jpg", .offset = 0, .length = 10};
  MemorySource source(samples, place_.path());
  const Result<ImportResult> result = import(source, options());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::not_found);
  EXPECT_THAT(result.error().message, HasSubstr("gone.jpg"));
}

TEST_F(ImportTest, ClassesOfTheSourceKeepItsOrder) {
  MemorySource source(some_samples(9));
  source.given = {"cat", "dog", "bee", "ant"};
  ASSERT_TRUE(import(source, options()));
  EXPECT_EQ(index()->about().classes, source.given);
  EXPECT_EQ(index()->entry(0).label, 0U);
  EXPECT_EQ(index()->entry(1).label, 3U);
}

}  // namespace
}  // namespace tern
