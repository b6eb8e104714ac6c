#include "loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "core/random.h"
#include "loader/augment.h"
#include "loader/test_loader.h"

namespace tern {
namespace {

using testing::HasSubstr;

TEST(Loader, BatchesHoldTheSamplesThatThePlanSays) {
  const Given given(250, 100);
  Loader::Setup setup = given.setup(2, 2);
  setup.augment = {};
  const std::vector<Batch> batches = load_all(setup);
  ASSERT_EQ(batches.size(), 6u);
  EXPECT_EQ(batches[2].positions, (PositionRange{200, 250}));
  for (const Batch& batch : batches) {
    ASSERT_EQ(batch.labels.size(), static_cast<size_t>(batch.positions.size()));
    ASSERT_EQ(batch.images.size(), batch.labels.size() * 40);
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      const int64_t position = batch.positions.begin + static_cast<int64_t>(i);
      const int64_t sample = given.plan.sample_at(batch.epoch, position);
      ASSERT_EQ(batch.labels[i], sample % 7);
      const std::vector<uint8_t> image = given.dataset.pixels(sample);
      ASSERT_TRUE(std::equal(image.begin(), image.end(),
                             batch.images.begin() + static_cast<int64_t>(i) * 40));
    }
  }
}

// Gives samples many at once, but for those that end in 3.
class DatasetFarAway final : public ScriptedDataset {
 public:
  using ScriptedDataset::ScriptedDataset;
  std::vector<Result<Bytes>> fetch_many(std::span<const int64_t> samples) const override {
    std::vector<Result<Bytes>> all;
    for (const int64_t sample : samples) {
      const std::vector<uint8_t> image = pixels(sample);
      all.push_back(sample % 10 == 3 ? Result<Bytes>(fail(Code::unavailable, "lost on the way"))
                                     : Result<Bytes>(Bytes(image.begin(), image.end())));
    }
    return all;
  }
};

TEST(Loader, WhatComesTogetherIsNotReadAgainAndTheRestIs) {
  const Given given(250, 100);
  const DatasetFarAway dataset(250);
  for (const int64_t threads : {0, 2}) {
    Loader::Setup setup = given.setup(threads);
    const std::vector<Batch> near = load_all(setup);
    const int64_t before = dataset.reads();
    setup.dataset = &dataset;
    expect_equal(load_all(setup), near);
    // pixels() counts as a read too.
    EXPECT_EQ(dataset.reads() - before, (250 + 25) * setup.epochs);
  }
}

TEST(Loader, BatchesAreTheSameForAnyNumberOfThreads) {
  const Given given(333, 100);
  const std::vector<Batch> inline_batches = load_all(given.setup(0));
  ASSERT_EQ(inline_batches.size(), 12u);
  for (const int64_t threads : {1, 2, 8}) {
    for (const int64_t batches_ahead : {1, 3, 50}) {
      Loader::Setup setup = given.setup(threads);
      setup.options.batches_ahead = batches_ahead;
      expect_equal(load_all(setup), inline_batches);
    }
  }
}

TEST(Loader, AugmentationIsKeyedBySeedEpochAndPosition) {
  const Given given(70, 50);
  const Loader::Setup setup = given.setup(2);
  std::vector<uint8_t> expected(40);
  for (const Batch& batch : load_all(setup)) {
    for (int64_t position = batch.positions.begin; position < batch.positions.end; ++position) {
      const std::vector<uint8_t> unchanged =
          given.dataset.pixels(given.plan.sample_at(batch.epoch, position));
      Random random(setup.seed, Stream::augment, static_cast<uint64_t>(batch.epoch),
                    static_cast<uint64_t>(position));
      augment_image(unchanged, expected, batch.shape, draw_augment(setup.augment, random));
      const auto image = batch.images.begin() + (position - batch.positions.begin) * 40;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), image));
    }
  }
}

TEST(Loader, AugmentationLeftToTheDeviceIsDrawnAndNotDone) {
  const Given given(250, 100);
  for (const int64_t threads : {0, 3}) {
    Loader::Setup setup = given.setup(threads);
    const std::vector<Batch> done = load_all(setup);
    setup.leave_augmentation = true;
    std::vector<Batch> left = load_all(setup);
    setup.augment = {};
    const std::vector<Batch> as_read = load_all(setup);
    ASSERT_EQ(left.size(), done.size());
    for (size_t i = 0; i < left.size(); ++i) {
      EXPECT_TRUE(done[i].draws.empty());
      EXPECT_TRUE(as_read[i].draws.empty());  // nothing is to be augmented
      ASSERT_EQ(left[i].images, as_read[i].images);
      ASSERT_EQ(left[i].draws.size(), left[i].labels.size());
      for (size_t image = 0; image < left[i].draws.size(); ++image) {
        augment_image(std::span(as_read[i].images).subspan(image * 40, 40),
                      std::span(left[i].images).subspan(image * 40, 40), left[i].shape,
                      left[i].draws[image]);
      }
      left[i].draws.clear();
    }
    expect_equal(left, done);
  }
}

TEST(Loader, StartingAnywhereGivesTheTailOfTheWholeSequence) {
  const Given given(50, 8);
  const std::vector<Batch> whole = load_all(given.setup(0));
  for (size_t begin = 0; begin < whole.size(); ++begin) {
    for (const int64_t threads : {0, 3}) {
      Loader::Setup setup = given.setup(threads);
      setup.start = {whole[begin].epoch, whole[begin].index};
      expect_equal(load_all(setup),
                   {whole.begin() + static_cast<std::ptrdiff_t>(begin), whole.end()});
    }
  }
  Loader::Setup at_the_end = given.setup(2);
  at_the_end.start = {3, 0};
  EXPECT_TRUE(load_all(at_the_end).empty());
}

// A part of a run that has epochs of its own: here, epochs 14 to 17.
TEST(Loader, EpochsNeedNotBeginWithTheFirst) {
  const Given given(230, 50);
  const std::vector<Batch> whole = load_all(given.setup(0, 18));
  for (const int64_t threads : {0, 3}) {
    Loader::Setup setup = given.setup(threads, 18);
    setup.start = {14, 0};
    expect_equal(load_all(setup), {whole.begin() + 14 * 5, whole.end()});
  }
}

TEST(Loader, ShortEpochsAreTheBeginningsOfWholeOnes) {
  const Given given(230, 50);
  std::vector<Batch> expected = load_all(given.setup(0));
  std::erase_if(expected, [](const Batch& batch) { return batch.index >= 2; });
  ASSERT_EQ(expected.size(), 6u);
  for (const int64_t threads : {0, 1, 4}) {
    Loader::Setup setup = given.setup(threads);
    setup.batches_per_epoch = 2;
    for (size_t skip = 0; skip < expected.size(); ++skip) {
      setup.start = {expected[skip].epoch, expected[skip].index};
      expect_equal(load_all(setup),
                   {expected.begin() + static_cast<std::ptrdiff_t>(skip), expected.end()});
    }
    setup.start = {3, 0};
    EXPECT_TRUE(load_all(setup).empty());
  }
}

TEST(Loader, EpochsAreNoLongerThanThePlans) {
  const Given given(230, 50);
  Loader::Setup setup = given.setup(2);
  setup.batches_per_epoch = 6;
  expect_equal(load_all(setup), load_all(given.setup(0)));
}

TEST(LoaderDeathTest, StartBehindAShortEpochIsOurBug) {
  const Given given(230, 50);
  Loader::Setup setup = given.setup(0);
  setup.batches_per_epoch = 2;
  setup.start = {0, 2};
  EXPECT_DEATH(Loader{setup}, "batches_per_epoch");
}

TEST(Loader, SharesOfAllRanksConcatenateToTheWholeBatch) {
  const Given given(53, 10);  // the last batch has 3 samples: some shares are empty
  const std::vector<Batch> whole = load_all(given.setup(2));
  for (const int64_t world : {1, 2, 3, 5}) {
    std::vector<Batch> joined;
    for (int64_t rank = 0; rank < world; ++rank) {
      Loader::Setup setup = given.setup(2);
      setup.rank = rank;
      setup.world = world;
      std::vector<Batch> shares = load_all(setup);
      if (rank == 0) {
        joined = std::move(shares);
        continue;
      }
      ASSERT_EQ(shares.size(), joined.size());
      for (size_t i = 0; i < joined.size(); ++i) {
        const auto append = [](auto& to, const auto& from) {
          to.insert(to.end(), from.begin(), from.end());
        };
        EXPECT_EQ(joined[i].positions.end, shares[i].positions.begin);
        joined[i].positions.end = shares[i].positions.end;
        append(joined[i].images, shares[i].images);
        append(joined[i].labels, shares[i].labels);
      }
    }
    expect_equal(joined, whole);
  }
}

TEST(Loader, RankWithoutAnySampleGetsEmptyBatches) {
  const Given given(3, 1);
  Loader::Setup setup = given.setup(2);
  setup.rank = 4;
  setup.world = 5;
  const std::vector<Batch> batches = load_all(setup);
  ASSERT_EQ(batches.size(), 9u);
  for (const Batch& batch : batches) EXPECT_TRUE(batch.images.empty() && batch.labels.empty());
}

TEST(Loader, FailureComesInOrderAndNamesTheSample) {
  for (const int64_t threads : {0, 1, 2, 8}) {
    Given given(1000, 100, Order::sequential);
    given.dataset.fail_at(399);
    given.dataset.fail_at(370);  // in another chunk of the same batch: the first one is told
    given.dataset.fail_at(360);
    given.dataset.fail_at(501);
    Loader loader(given.setup(threads));
    for (int64_t batch = 0; batch < 3; ++batch) ASSERT_TRUE(loader.next()) << batch;
    const Result<Batch> failed = loader.next();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::corrupt);
    EXPECT_THAT(failed.error().message, HasSubstr("load sample 360 (position 360 of epoch 0)"));
    EXPECT_THAT(failed.error().message, HasSubstr("scripted:samples, sample-360.raw: bad pixels"));
    EXPECT_THAT(failed.error().message, HasSubstr("set data.on_bad_sample to skip or replace"));
    EXPECT_EQ(loader.position(), (LoaderPosition{0, 3}));
  }
}

TEST(LoaderDeathTest, CallsAfterTheEndOrAfterAFailureAreOurBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Given given(4, 4);
  given.dataset.fail_at(2);
  const auto call_twice = [](const Loader::Setup& setup) {
    Loader loader(setup);
    static_cast<void>(loader.next());
    static_cast<void>(loader.next());
  };
  EXPECT_DEATH(call_twice(given.setup(0)), "CHECK");
  EXPECT_DEATH(call_twice(given.setup(2)), "CHECK");
  const Given healthy(4, 4);
  EXPECT_DEATH(call_twice(healthy.setup(2, /*epochs=*/1)), "CHECK");
}

TEST(Loader, ReadsNoFurtherAheadThanItsLimit) {
  constexpr int64_t kBatch = 40;
  for (const int64_t threads : {1, 2, 4}) {
    const Given given(100 * kBatch, kBatch);
    const int64_t window = kBatch * (2 + threads);
    {
      Loader loader(given.setup(threads));
      ASSERT_TRUE(given.dataset.wait_for_reads(window));
      for (int64_t taken = 1; taken <= 20; ++taken) {
        EXPECT_LE(given.dataset.reads(), window + (taken - 1) * kBatch);
        ASSERT_TRUE(loader.next());
        ASSERT_TRUE(given.dataset.wait_for_reads(window + taken * kBatch));
      }
    }
    // The threads are joined: nothing more was read behind our back.
    EXPECT_EQ(given.dataset.reads(), window + 20 * kBatch);
  }
}

TEST(Loader, ThreadsGoOnIntoTheNextEpochButNotPastTheLast) {
  const Given given(10, 10);
  {
    Loader loader(given.setup(1, /*epochs=*/2));
    // Three batches would fit, but only two epochs of one batch each exist.
    ASSERT_TRUE(given.dataset.wait_for_reads(20));
    ASSERT_TRUE(loader.next());
    ASSERT_TRUE(loader.next());
  }
  EXPECT_EQ(given.dataset.reads(), 20);
}

TEST(Loader, BatchesAreTheSameWhenTheirMemoryIsGivenBack) {
  const Given given(333, 100);  // the last batch of an epoch is smaller
  for (const bool leave_augmentation : {false, true}) {
    for (const int64_t threads : {0, 1, 3}) {
      Loader::Setup setup = given.setup(threads);
      setup.leave_augmentation = leave_augmentation;
      const std::vector<Batch> expected = load_all(setup);
      Loader loader(setup);
      for (const Batch& batch : expected) {
        Result<Batch> next = loader.next();
        ASSERT_TRUE(next);
        ASSERT_EQ(next->images, batch.images);
        ASSERT_EQ(next->labels, batch.labels);
        ASSERT_EQ(next->draws, batch.draws);
        std::ranges::fill(next->images, uint8_t{99});
        next->bad.push_back({});
        loader.recycle(std::move(*next));
      }
    }
  }
}

TEST(Loader, GivenBackMemoryIsUsedAgain) {
  const Given given(200, 100);
  Loader loader(given.setup(0));
  Result<Batch> first = loader.next();
  ASSERT_TRUE(first);
  const uint8_t* const memory = first->images.data();
  loader.recycle(std::move(*first));
  const Result<Batch> second = loader.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->images.data(), memory);
}

TEST(Loader, SeveralThreadsShareOneBatch) {
  Given given(128, 128);
  given.dataset.hold();
  Loader loader(given.setup(4, /*epochs=*/1));
  // There is only one batch, and no read ends; yet four have begun.
  EXPECT_TRUE(given.dataset.wait_for_reads(4));
  given.dataset.release();
  EXPECT_TRUE(loader.next());
}

TEST(Loader, DestroyedWhileFullOrJustBegunItStops) {
  const Given given(1000, 10);
  for (int round = 0; round < 50; ++round) {
    Loader just_begun(given.setup(8));
  }
  for (int round = 0; round < 20; ++round) {
    const int64_t before = given.dataset.reads();
    Loader full(given.setup(2));
    ASSERT_TRUE(given.dataset.wait_for_reads(before + 40));
    ASSERT_TRUE(full.next());
  }
}

// Once stopped a thread finishes its sample, not the 32 it has taken. Whether the stop or the
// release is seen first is up to the scheduler, so there are many rounds, of which one must show
// it.
TEST(Loader, DestroyedWhileAThreadReadsItStopsAfterThatSample) {
  int64_t fewest_reads = 1000;
  for (int round = 0; round < 1000 && fewest_reads > 2; ++round) {
    Given given(1000, 1000);
    given.dataset.hold();
    std::optional<Loader> loader(std::in_place, given.setup(1));
    ASSERT_TRUE(given.dataset.wait_for_reads(1));
    std::atomic<bool> begun = false;
    std::jthread destroyer([&] {
      begun = true;
      begun.notify_one();
      loader.reset();
    });
    begun.wait(false);
    given.dataset.release();
    destroyer.join();
    fewest_reads = std::min(fewest_reads, given.dataset.reads());
  }
  EXPECT_LE(fewest_reads, 2);
}

TEST(Loader, StopInterruptsAWaitAndNothingIsLost) {
  Given given(20, 10);
  given.dataset.hold();
  Loader loader(given.setup(2));
  std::stop_source stop;
  std::jthread stopper([&] {
    EXPECT_TRUE(given.dataset.wait_for_reads(1));
    stop.request_stop();
  });
  const Result<Batch> cancelled = loader.next(stop.get_token());
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Code::cancelled);
  EXPECT_EQ(loader.position(), (LoaderPosition{0, 0}));
  given.dataset.release();
  const Result<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->images, load_batch(given.setup(0), {0, 0}).value().images);
}

TEST(LoaderWaits, WhatABatchWaitsForIsNamedWithItsAttempt) {
  for (const int64_t threads : {0, 1}) {
    Given given(8, 4, Order::sequential);
    SystemClock clock;
    given.dataset.hold();
    given.dataset.fail_first(0, 2, Code::unavailable);
    Loader::Setup setup = given.setup(threads, /*epochs=*/1);
    setup.clock = &clock;
    Loader loader(setup);
    std::jthread owner([&] { EXPECT_TRUE(loader.next().has_value()); });
    ASSERT_TRUE(given.dataset.wait_for_reads(3));
    EXPECT_EQ(loader.waits_for(), "sample-0.raw, attempt 3");
    given.dataset.release();
  }
}

}  // namespace
}  // namespace tern
