// What the loader does with samples that cannot be read or decoded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "loader/augment.h"
#include "loader/test_loader.h"

namespace tern {
namespace {

using testing::HasSubstr;

// In batches of 100, in sequence, so that positions are samples; four of the second batch are bad.
struct Damaged : Given {
  Damaged() : Given(300, 100, Order::sequential) {
    dataset.fail_at(100, Code::not_found);
    dataset.fail_decoding_at(131);
    dataset.fail_at(132, Code::permission_denied);
    dataset.fail_decoding_at(199, Code::invalid);
  }
};

Loader::Setup setup_of(const Given& given, int64_t threads, OnBadSample on_bad) {
  Loader::Setup setup = given.setup(threads, /*epochs=*/2);
  setup.on_bad = on_bad;
  return setup;
}

TEST(BadSamples, SkippedOnesAreMissingAndTheOthersKeepTheirOrder) {
  const Damaged given;
  const Given healthy(300, 100, Order::sequential);
  const std::vector<int64_t> bad = {100, 131, 132, 199};
  for (const bool leave_augmentation : {false, true}) {
    Loader::Setup setup = setup_of(given, 0, OnBadSample::skip);
    setup.leave_augmentation = leave_augmentation;
    Loader::Setup whole_setup = healthy.setup(0, 2);
    whole_setup.leave_augmentation = leave_augmentation;
    std::vector<Batch> expected = load_all(whole_setup);
    for (Batch& batch : expected) {
      if (batch.index != 1) continue;
      for (auto sample = bad.rbegin(); sample != bad.rend(); ++sample) {
        const std::ptrdiff_t slot = *sample - 100;
        batch.labels.erase(batch.labels.begin() + slot);
        if (leave_augmentation) batch.draws.erase(batch.draws.begin() + slot);
        batch.images.erase(batch.images.begin() + slot * 40, batch.images.begin() + slot * 40 + 40);
      }
      for (const int64_t sample : bad) {
        batch.bad.push_back({.sample = sample,
                             .position = sample,
                             .where = given.dataset.where(sample),
                             .cause = sample == 131 || sample == 199
                                          ? "bad codes; fetch it again"
                                          : "bad pixels; fetch it again"});
      }
      EXPECT_EQ(batch.samples(), 96);
      EXPECT_EQ(batch.positions.size(), 100);
    }
    for (const int64_t threads : {0, 1, 2, 8}) {
      setup.options.threads = threads;
      expect_equal(load_all(setup), expected);
    }
  }
}

TEST(BadSamples, ReplacedOnesAreTheSameForAnyNumberOfThreadsAndRanks) {
  const Damaged given;
  const Loader::Setup setup = setup_of(given, 0, OnBadSample::replace);
  const std::vector<Batch> expected = load_all(setup);
  for (const int64_t threads : {1, 3, 8}) {
    expect_equal(load_all(setup_of(given, threads, OnBadSample::replace)), expected);
  }
  std::set<int64_t> substitutes;
  for (const Batch& batch : expected) {
    EXPECT_EQ(batch.samples(), 100);
    ASSERT_EQ(batch.bad.size(), batch.index == 1 ? 4u : 0u);
    for (const BadRead& bad : batch.bad) {
      substitutes.insert(bad.replaced_by);
      const auto slot = static_cast<size_t>(bad.position - 100);
      EXPECT_EQ(batch.labels[slot], bad.replaced_by % 7);
      // The substitute's pixels, with the crop and flip that the position draws.
      Random random(setup.seed, Stream::augment, static_cast<uint64_t>(batch.epoch),
                    static_cast<uint64_t>(bad.position));
      std::vector<uint8_t> image(40);
      augment_image(given.dataset.pixels(bad.replaced_by), image, batch.shape,
                    draw_augment(setup.augment, random));
      EXPECT_EQ(image, std::vector<uint8_t>(
                           batch.images.begin() + static_cast<std::ptrdiff_t>(slot * 40),
                           batch.images.begin() + static_cast<std::ptrdiff_t>(slot * 40 + 40)));
    }
  }
  // Drawn for each epoch and position anew.
  EXPECT_GE(substitutes.size(), 7u);

  Loader::Setup share = setup_of(given, 2, OnBadSample::replace);
  share.world = 3;
  share.rank = 1;  // positions 134 to 166 of the batch: none of the bad ones, then the last rank's
  EXPECT_TRUE(load_batch(share, {0, 1}).value().bad.empty());
  share.rank = 2;
  EXPECT_EQ(load_batch(share, {0, 1}).value().bad, std::vector<BadRead>{expected[1].bad.back()});
}

TEST(BadSamples, AreToldInTheOrderOfPositionsThoughALaterChunkIsDoneFirst) {
  Given given(100, 100, Order::sequential);
  given.dataset.fail_at(5);
  given.dataset.fail_at(40);
  // The first chunk of 32 waits until a thread has brought back the second and begun the third.
  given.dataset.on_read([&](int64_t sample) {
    if (sample != 10) return;
    EXPECT_TRUE(given.dataset.wait_for_reads(11 + 32 + 1));
  });
  Loader::Setup setup = setup_of(given, 2, OnBadSample::skip);
  setup.epochs = 1;
  Loader loader(setup);
  const Result<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch->bad.size(), 2u);
  EXPECT_EQ(batch->bad[0].position, 5);
  EXPECT_EQ(batch->bad[1].position, 40);
}

TEST(BadSamples, SubstituteThatIsBadItselfIsPassedOver) {
  Given given(40, 40, Order::sequential);
  for (int64_t sample = 0; sample < 32; ++sample) given.dataset.fail_at(sample);
  const Batch batch = load_batch(setup_of(given, 0, OnBadSample::replace), {0, 0}).value();
  ASSERT_EQ(batch.bad.size(), 32u);
  for (const BadRead& bad : batch.bad) EXPECT_GE(bad.replaced_by, 32);
}

TEST(BadSamples, WhereNothingCanBeReadReplacingEndsWithAnError) {
  Given given(40, 10, Order::sequential);
  for (int64_t sample = 0; sample < 40; ++sample) given.dataset.fail_at(sample);
  for (const int64_t threads : {0, 2}) {
    Loader loader(setup_of(given, threads, OnBadSample::replace));
    const Result<Batch> batch = loader.next();
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code, Code::corrupt);
    EXPECT_THAT(batch.error().message, HasSubstr("sample-0.raw of scripted:samples"));
    EXPECT_THAT(batch.error().message, HasSubstr("`tern data verify`"));
  }
}

// A last batch of one sample is enough for that.
TEST(BadSamples, BatchWithNothingLeftIsEmptyAndTheNextOneComes) {
  Given given(31, 10, Order::sequential);
  for (int64_t sample = 10; sample < 20; ++sample) given.dataset.fail_at(sample);
  given.dataset.fail_decoding_at(30);
  for (const int64_t threads : {0, 2}) {
    for (const bool leave_augmentation : {false, true}) {
      Loader::Setup setup = setup_of(given, threads, OnBadSample::skip);
      setup.leave_augmentation = leave_augmentation;
      const std::vector<Batch> batches = load_all(setup);
      ASSERT_EQ(batches.size(), 8u);
      for (const Batch& batch : batches) {
        const bool is_bad = batch.index % 2 == 1;
        EXPECT_EQ(batch.samples(), is_bad ? 0 : 10);
        EXPECT_EQ(batch.images.size(), is_bad ? 0u : 400u);
        EXPECT_EQ(std::ssize(batch.bad), is_bad ? batch.positions.size() : 0);
        EXPECT_EQ(batch.draws.size(), is_bad || !leave_augmentation ? 0u : 10u);
      }
      EXPECT_EQ(batches[1].bad.front().where, "sample-10.raw");
      EXPECT_EQ(batches[3].bad.front().cause, "bad codes; fetch it again");
    }
  }
}

TEST(BadSamples, FailuresThatAreNotTheSamplesFaultStopWhateverThePolicy) {
  for (const Code code : {Code::unavailable, Code::exhausted, Code::internal,
                          Code::deadline_exceeded, Code::failed_precondition}) {
    for (const OnBadSample on_bad : {OnBadSample::stop, OnBadSample::skip, OnBadSample::replace}) {
      Given given(20, 20, Order::sequential);
      given.dataset.fail_at(7, code);
      const Result<Batch> batch = load_batch(setup_of(given, 0, on_bad), {0, 0});
      ASSERT_FALSE(batch);
      EXPECT_EQ(batch.error().code, code);
      EXPECT_THAT(batch.error().message, HasSubstr("load sample 7 (position 7 of epoch 0)"));
      EXPECT_THAT(batch.error().message, HasSubstr("sample-7.raw"));
    }
  }
}

TEST(BadSamples, StoppedWithinManySubstitutesTheLoaderEnds) {
  Given given(1000, 1000, Order::sequential);
  for (int64_t sample = 0; sample < 1000; ++sample) given.dataset.fail_at(sample);
  const Loader loader(setup_of(given, 2, OnBadSample::replace));
}

}  // namespace
}  // namespace tern
