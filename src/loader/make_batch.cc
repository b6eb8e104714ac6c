#include "loader/make_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "core/random.h"
#include "loader/augment.h"
#include "loader/colour.h"
#include "loader/fetch_retry.h"
#include "loader/view.h"

namespace tern {
namespace {

// A data set of which a hundred samples drawn at random are all bad is not worth training on.
constexpr int kSubstitutesMax = 100;

Random random_of(const Loader::Setup& setup, Stream stream, int64_t epoch, int64_t position) {
  return Random(setup.seed, stream, static_cast<uint64_t>(epoch), static_cast<uint64_t>(position));
}

// The mean aspect ratio of the whole batch, not of a rank's share: all ranks see one shape.
double mean_ratio(const Loader::Setup& setup, LoaderPosition at) {
  const PositionRange positions = setup.plan->batch(at.batch);
  std::vector<int64_t> samples(static_cast<size_t>(positions.size()));
  setup.plan->samples_at(at.epoch, positions.begin, samples);
  double sum = 0;
  for (const int64_t sample : samples) {
    const ImageSize size = setup.dataset->info(sample).size;
    sum += static_cast<double>(size.width) / size.height;
  }
  return sum / static_cast<double>(positions.size());
}

ImageShape batch_shape(const Loader::Setup& setup, LoaderPosition at) {
  const ImageShape own = setup.dataset->shape();
  const int64_t size = setup.image.size;
  if (size == 0) return own;
  if (!setup.is_evaluation || !setup.image.rectangular) return {own.channels, size, size};
  ImageShape shape = rectangular_shape(setup.image, mean_ratio(setup, at));
  shape.channels = own.channels;
  return shape;
}

// What resize() leaves in place is not cleared again: it will be overwritten. A vector that must
// grow is made anew, because growing would copy.
template <typename T>
void fit(std::vector<T>& buffer, int64_t size) {
  const auto wanted = static_cast<size_t>(size);
  if (buffer.capacity() < wanted) buffer = {};
  buffer.resize(wanted);
}

// True if it is the sample that is at fault. Others may be over in a moment, or hit every sample.
bool is_bad_sample(const Error& error) {
  return error.code == Code::corrupt || error.code == Code::not_found ||
         error.code == Code::invalid || error.code == Code::permission_denied;
}

std::span<uint8_t> image_at(Batch& batch, int64_t slot) {
  const auto bytes = static_cast<size_t>(batch.shape.bytes());
  return std::span(batch.images).subspan(static_cast<size_t>(slot) * bytes, bytes);
}

// Names the sample, and where it is unless the message does so itself.
Error name_sample(const Error& error, const Dataset& dataset, int64_t sample, int64_t position,
                  int64_t epoch) {
  std::string doing = fmt::format("load sample {} (position {} of epoch {}) of {}", sample,
                                  position, epoch, dataset.name());
  const std::string where = dataset.where(sample);
  if (error.message.find(where) == std::string::npos) doing += fmt::format(", {}", where);
  Error named = error.at(doing);
  if (is_bad_sample(error)) {
    named.message += "; to go on without it, set data.on_bad_sample to skip or replace";
  }
  return named;
}

}  // namespace

Result<Batch> allocate_batch(const Loader::Setup& setup, LoaderPosition at, Batch spare) {
  Batch batch = std::move(spare);
  batch.epoch = at.epoch;
  batch.index = at.batch;
  batch.positions = setup.plan->share(at.batch, setup.rank, setup.world);
  batch.bad.clear();
  batch.draws.clear();
  batch.waited = {};
  const int64_t samples = batch.positions.size();
  try {
    batch.shape = batch_shape(setup, at);
    fit(batch.images, samples * batch.shape.bytes());
    fit(batch.labels, samples);
    if (setup.leave_augmentation && !setup.is_evaluation && augments(setup.augment)) {
      fit(batch.draws, samples);
    }
  } catch (const std::bad_alloc&) {
    return fail(Code::exhausted,
                fmt::format("no memory for a batch of {} images of {} bytes; use smaller batches, "
                            "or lower loader.batches_ahead or loader.threads",
                            samples, batch.shape.bytes()));
  }
  return batch;
}

BatchFiller::BatchFiller(const Loader::Setup& setup)
    : setup_(setup),
      augment_(setup.is_evaluation ? AugmentOptions{} : setup.augment),
      has_draws_(augments(augment_)),
      mirrors_in_view_(setup.image.size > 0 && augment_.pad_crop == 0 &&
                       !setup.leave_augmentation) {}

Result<std::vector<BadRead>> BatchFiller::fill(Batch& batch, PositionRange chunk, StageMeter& meter,
                                               std::stop_token stop) {
  std::vector<BadRead> bad;
  // Finding out which samples they are counts as fetching the first.
  samples_.resize(static_cast<size_t>(chunk.size()));
  setup_.plan->samples_at(batch.epoch, chunk.begin, samples_);
  place_.attempt = 1;
  place_.sample = samples_.empty() ? -1 : samples_[0];
  place_.epoch = batch.epoch;
  place_.batch = batch.index;
  // Where each read is a request over a network, all of them are on their way at once. What fails
  // there is read again, by itself.
  const std::vector<Result<Bytes>> ahead = setup_.dataset->fetch_many(samples_);
  for (int64_t position = chunk.begin; position < chunk.end && !stop.stop_requested(); ++position) {
    const auto index = static_cast<size_t>(position - chunk.begin);
    const int64_t sample = samples_[index];
    const bool is_read = index < ahead.size() && ahead[index].has_value();
    const Status filled =
        fill_slot(batch, position, sample, is_read ? &*ahead[index] : nullptr, meter, stop);
    if (filled) continue;
    if (setup_.on_bad == OnBadSample::stop || !is_bad_sample(filled.error())) {
      return name_sample(filled.error(), *setup_.dataset, sample, position, batch.epoch);
    }
    ASSIGN_OR_RETURN(BadRead read, deal_with(batch, position, sample, filled.error(), meter, stop));
    bad.push_back(std::move(read));
  }
  place_.batch = -1;
  if (stored_.capacity() > ImageDecoder::kKeptBytesMax) Bytes().swap(stored_);
  return bad;
}

// A sample may be as large as its header says, and this may be a thread whose exceptions nobody
// catches.
Status BatchFiller::fill_slot(Batch& batch, int64_t position, int64_t sample, const Bytes* ahead,
                              StageMeter& meter, const std::stop_token& stop) try {
  const Dataset& dataset = *setup_.dataset;
  const int64_t slot = position - batch.positions.begin;
  const std::span<uint8_t> image = image_at(batch, slot);
  BytesView stored;
  if (ahead != nullptr) {
    stored = *ahead;
  } else {
    place_.sample = sample;
    ASSIGN_OR_RETURN(
        stored, fetch_with_retries(dataset, sample, stored_, setup_.clock, stop, &place_.attempt));
  }
  meter.end(LoadStage::fetch);

  AugmentDraw draw;
  if (has_draws_) {
    Random random = random_of(setup_, Stream::augment, batch.epoch, position);
    draw = draw_augment(augment_, random);
  }
  std::optional<View> view;
  if (setup_.image.size > 0) view = view_of(batch, position, sample);
  if (mirrors_in_view_) view->mirror = draw.mirror;
  const bool moves_here = has_draws_ && !setup_.leave_augmentation && !mirrors_in_view_;
  if (moves_here) unchanged_.resize(image.size());
  const std::span<uint8_t> pixels = moves_here ? std::span(unchanged_) : image;
  RETURN_IF_ERROR(dataset.decode(sample, stored, view ? &*view : nullptr, decoder_, pixels));
  meter.end(LoadStage::decode);

  if (jitters(augment_)) {
    Random random = random_of(setup_, Stream::colour, batch.epoch, position);
    change_colour(pixels, batch.shape, draw_colour(augment_, random));
  }
  if (moves_here) augment_image(pixels, image, batch.shape, draw);
  if (!batch.draws.empty()) batch.draws[static_cast<size_t>(slot)] = draw;
  if (has_draws_ || jitters(augment_)) meter.end(LoadStage::augment);
  batch.labels[static_cast<size_t>(slot)] = dataset.label(sample);
  return {};
} catch (const std::bad_alloc&) {
  return fail(Code::exhausted,
              "no memory to read or decode it; use fewer loader.threads, or a machine with more");
}

View BatchFiller::view_of(const Batch& batch, int64_t position, int64_t sample) const {
  const ImageSize size = setup_.dataset->info(sample).size;
  if (setup_.is_evaluation && setup_.image.rectangular) {
    const double ratio =
        static_cast<double>(batch.shape.width) / static_cast<double>(batch.shape.height);
    return rectangular_view(setup_.image, size, ratio);
  }
  if (setup_.is_evaluation || setup_.image.crop != "random") return centre_view(setup_.image, size);
  Random random = random_of(setup_, Stream::view, batch.epoch, position);
  return draw_resized_crop(setup_.image, size, random);
}

// Skips the sample, or puts the first good one of a sequence drawn for this position in its place.
Result<BadRead> BatchFiller::deal_with(Batch& batch, int64_t position, int64_t sample,
                                       const Error& error, StageMeter& meter,
                                       const std::stop_token& stop) {
  const Dataset& dataset = *setup_.dataset;
  BadRead bad{.sample = sample,
              .position = position,
              .where = dataset.where(sample),
              .cause = error.message};
  if (setup_.on_bad == OnBadSample::skip) return bad;
  Random random = random_of(setup_, Stream::replace, batch.epoch, position);
  for (int tries = 0; tries < kSubstitutesMax; ++tries) {
    if (stop.stop_requested()) return bad;  // nobody will look at this batch
    const uint64_t high = random.next();
    const uint64_t drawn = (high << 32) | random.next();
    const auto substitute =
        static_cast<int64_t>(drawn % static_cast<uint64_t>(setup_.plan->samples()));
    if (substitute == sample) continue;
    const Status filled = fill_slot(batch, position, substitute, nullptr, meter, stop);
    if (filled) {
      bad.replaced_by = substitute;
      return bad;
    }
    if (!is_bad_sample(filled.error())) {
      return name_sample(filled.error(), dataset, substitute, position, batch.epoch);
    }
  }
  return fail(
      Code::corrupt,
      fmt::format("{} of {} cannot be read ({}), nor can any of {} others that were tried in "
                  "its place; `tern data verify` says which samples are damaged",
                  bad.where, dataset.name(), bad.cause, kSubstitutesMax));
}

Batch finish_batch(Batch batch) {
  if (batch.bad.empty()) return batch;
  std::ranges::sort(batch.bad, {}, &BadRead::position);
  std::vector<bool> is_skipped(batch.labels.size());
  for (const BadRead& bad : batch.bad) {
    is_skipped[static_cast<size_t>(bad.position - batch.positions.begin)] = bad.replaced_by < 0;
  }
  int64_t kept = 0;
  for (int64_t slot = 0; slot < batch.positions.size(); ++slot) {
    const auto from = static_cast<size_t>(slot);
    const auto to = static_cast<size_t>(kept);
    if (is_skipped[from]) continue;
    ++kept;
    if (from == to) continue;
    std::ranges::copy(image_at(batch, slot), image_at(batch, kept - 1).begin());
    batch.labels[to] = batch.labels[from];
    if (!batch.draws.empty()) batch.draws[to] = batch.draws[from];
  }
  batch.images.resize(static_cast<size_t>(kept * batch.shape.bytes()));
  batch.labels.resize(static_cast<size_t>(kept));
  if (!batch.draws.empty()) batch.draws.resize(static_cast<size_t>(kept));
  return batch;
}

}  // namespace tern
