#include "dataset/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "core/hash.h"
#include "core/random.h"
#include "dataset/shard_windows.h"

namespace tern {
namespace {

uint64_t order_key(const std::string& dataset_id, uint64_t seed) {
  Sha256 hash;
  hash.update_field(dataset_id);
  hash.update_number(seed);
  hash.update_number(static_cast<uint64_t>(Stream::order));
  const Digest digest = hash.finish();
  uint64_t key = 0;
  for (size_t i = 0; i < 8; ++i) key |= uint64_t{digest[i]} << (8 * i);
  return key;
}

constexpr std::string_view kWindow = "window:";

}  // namespace

Result<Shuffle> parse_shuffle(std::string_view text) {
  if (text == "full") return Shuffle{.order = Order::shuffled};
  if (text == "sequential") return Shuffle{.order = Order::sequential};
  if (text.starts_with(kWindow)) {
    const std::string_view number = text.substr(kWindow.size());
    const char* const end = number.data() + number.size();
    Shuffle shuffle{.order = Order::windowed};
    const auto [last, error] = std::from_chars(number.data(), end, shuffle.window);
    if (error == std::errc() && last == end && shuffle.window >= 1) return shuffle;
  }
  return fail(
      Code::invalid,
      fmt::format("data.shuffle = \"{}\" is no shuffle; use full, window:W (the samples of W "
                  "shards are mixed, W at least 1) or sequential",
                  text));
}

std::string shuffle_text(const Shuffle& shuffle) {
  switch (shuffle.order) {
    case Order::shuffled: return "full";
    case Order::sequential: return "sequential";
    case Order::windowed: return fmt::format("{}{}", kWindow, shuffle.window);
  }
  return "";
}

Plan::Plan(std::string dataset_id, int64_t samples, uint64_t seed, int64_t global_batch,
           Shuffle shuffle, std::vector<int64_t> shards)
    : samples_(samples),
      global_batch_(global_batch),
      shuffle_(shuffle),
      key_(order_key(dataset_id, seed)) {
  TERN_CHECK(samples > 0);
  TERN_CHECK(global_batch > 0);
  if (shuffle.order == Order::shuffled) {
    tables_ = std::make_shared<RecentEpochs<Permutation::Table>>();
  }
  if (shuffle.order != Order::windowed) return;
  if (shards.empty()) shards = {samples};
  TERN_CHECK(std::accumulate(shards.begin(), shards.end(), int64_t{0}) == samples);
  windows_ = std::make_shared<ShardWindows>(shards, shuffle.window, key_);
}

Plan Plan::with_order(std::shared_ptr<const std::vector<int64_t>> order) const {
  TERN_CHECK(order && static_cast<int64_t>(order->size()) == samples_);
  Plan plan = *this;
  plan.given_ = std::move(order);
  return plan;
}

int64_t Plan::batches_per_epoch() const { return (samples_ - 1) / global_batch_ + 1; }

int64_t Plan::sample_at(int64_t epoch, int64_t position) const {
  TERN_CHECK(epoch >= 0);
  TERN_CHECK(position >= 0 && position < samples_);
  if (given_ || windows_ || shuffle_.order == Order::sequential) {
    int64_t sample = 0;
    samples_at(epoch, position, std::span(&sample, 1));
    return sample;
  }
  return Permutation(samples_, key_, static_cast<uint64_t>(epoch)).at(position);
}

void Plan::samples_at(int64_t epoch, int64_t begin, std::span<int64_t> samples) const {
  TERN_CHECK(epoch >= 0 && begin >= 0);
  TERN_CHECK(static_cast<int64_t>(samples.size()) <= samples_ - begin);
  if (given_) {
    std::copy_n(given_->begin() + begin, samples.size(), samples.begin());
  } else if (windows_) {
    windows_->samples_at(epoch, begin, samples);
  } else if (shuffle_.order == Order::sequential) {
    std::iota(samples.begin(), samples.end(), begin);
  } else {
    const Permutation shuffled(samples_, key_, static_cast<uint64_t>(epoch));
    if (!shuffled.can_tabulate()) {
      for (int64_t& sample : samples) sample = shuffled.at(begin++);
      return;
    }
    const auto table = tables_->get(epoch, [&] { return shuffled.tabulate(); });
    for (int64_t& sample : samples) sample = shuffled.at(begin++, *table);
  }
}

PositionRange Plan::batch(int64_t batch) const {
  TERN_CHECK(batch >= 0 && batch < batches_per_epoch());
  const int64_t begin = batch * global_batch_;
  return {begin, begin + std::min(global_batch_, samples_ - begin)};
}

PositionRange Plan::share(int64_t batch, int64_t rank, int64_t world) const {
  TERN_CHECK(world > 0);
  TERN_CHECK(rank >= 0 && rank < world);
  const PositionRange whole = this->batch(batch);
  // Spreads the remainder over the ranks without multiplying the batch by the world.
  const int64_t each = whole.size() / world;
  const int64_t larger = whole.size() % world;  // the first ranks take one more
  const int64_t begin = whole.begin + rank * each + std::min(rank, larger);
  return {begin, begin + each + (rank < larger ? 1 : 0)};
}

}  // namespace tern
