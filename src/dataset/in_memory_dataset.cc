#include "dataset/in_memory_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/hash.h"

namespace tern {
namespace {

// Part of the id's definition: a change of the definition changes this, and with it every id.
constexpr std::string_view kIndexFormat = "tern-dataset-index-1";

BytesView content_of(const Samples& samples, int64_t sample) {
  const auto bytes = static_cast<size_t>(samples.shape.bytes());
  return BytesView(samples.pixels).substr(static_cast<size_t>(sample) * bytes, bytes);
}

BytesView as_bytes(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

std::string_view split_name(Split split) { return split == Split::train ? "train" : "test"; }

std::string dataset_id(const Samples& samples, Split split) {
  Sha256 index;
  index.update_field(kIndexFormat);
  index.update_number(static_cast<uint64_t>(samples.classes));
  index.update_number(static_cast<uint64_t>(samples.size()));
  index.update_number(static_cast<uint64_t>(samples.shape.channels));
  index.update_number(static_cast<uint64_t>(samples.shape.height));
  index.update_number(static_cast<uint64_t>(samples.shape.width));
  for (int64_t sample = 0; sample < samples.size(); ++sample) {
    const BytesView content = content_of(samples, sample);
    index.update_field(fmt::format("{}/{:08}", split_name(split), sample));
    index.update_number(content.size());
    index.update_number(static_cast<uint64_t>(samples.labels[static_cast<size_t>(sample)]));
    index.update(as_bytes(sha256(content)));
  }
  return to_hex(index.finish());
}

InMemoryDataset::InMemoryDataset(std::string name, Split split, Samples samples)
    : name_(std::move(name)), samples_(std::move(samples)), id_(dataset_id(samples_, split)) {
  TERN_CHECK(samples_.size() > 0);
  const ImageShape& shape = samples_.shape;
  TERN_CHECK(shape.width > 0 && shape.width <= kImageSideMax);
  TERN_CHECK(shape.height > 0 && shape.height <= kImageSideMax);
  TERN_CHECK(shape.channels > 0 && shape.channels <= std::numeric_limits<uint8_t>::max());
  TERN_CHECK(static_cast<int64_t>(samples_.pixels.size()) ==
             samples_.size() * samples_.shape.bytes());
  TERN_CHECK(std::ranges::all_of(
      samples_.labels, [this](int64_t label) { return label >= 0 && label < samples_.classes; }));
}

int64_t InMemoryDataset::label(int64_t sample) const {
  TERN_CHECK(sample >= 0 && sample < size());
  return samples_.labels[static_cast<size_t>(sample)];
}

ImageInfo InMemoryDataset::info(int64_t sample) const {
  TERN_CHECK(sample >= 0 && sample < size());
  const ImageShape& shape = samples_.shape;
  return {.format = ImageFormat::raw,
          .size = {static_cast<int32_t>(shape.width), static_cast<int32_t>(shape.height)},
          .channels = static_cast<uint8_t>(shape.channels)};
}

Result<BytesView> InMemoryDataset::fetch(int64_t sample, Bytes& /*buffer*/) const {
  TERN_CHECK(sample >= 0 && sample < size());
  return content_of(samples_, sample);
}

Status InMemoryDataset::decode(int64_t sample, BytesView stored, const View* view,
                               ImageDecoder& decoder, std::span<uint8_t> image) const {
  if (view != nullptr) {
    return decoder.decode(stored, info(sample), *view, image).at(where(sample));
  }
  TERN_CHECK(image.size() == stored.size());
  std::memcpy(image.data(), stored.data(), stored.size());
  return {};
}

std::string InMemoryDataset::where(int64_t sample) const {
  return fmt::format("sample {} of {}", sample, name_);
}

}  // namespace tern
