#include "image/orientation.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tern {
namespace {

// TIFF's numbers are either way round. REQUIRES: the bytes are there.
uint32_t number_at(BytesView bytes, size_t at, size_t size, bool is_little) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value = value << 8U | static_cast<uint8_t>(bytes[at + (is_little ? size - 1 - i : i)]);
  }
  return value;
}

}  // namespace

uint8_t exif_orientation(BytesView tiff) {
  constexpr size_t kEntryBytes = 12;
  constexpr uint32_t kTag = 0x0112;
  constexpr uint32_t kShort = 3;
  constexpr uint32_t kLong = 4;
  if (tiff.size() < 8) return 1;
  const bool is_little = tiff.starts_with("II");
  if (!is_little && !tiff.starts_with("MM")) return 1;
  if (number_at(tiff, 2, 2, is_little) != 42) return 1;
  const size_t table = number_at(tiff, 4, 4, is_little);
  if (table > tiff.size() - 2) return 1;
  const size_t entries = std::min<size_t>(number_at(tiff, table, 2, is_little),
                                          (tiff.size() - table - 2) / kEntryBytes);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = table + 2 + i * kEntryBytes;
    if (number_at(tiff, entry, 2, is_little) != kTag) continue;
    const uint32_t type = number_at(tiff, entry + 2, 2, is_little);
    if (type != kShort && type != kLong) return 1;
    const uint32_t value = number_at(tiff, entry + 8, type == kShort ? 2 : 4, is_little);
    return value >= 1 && value <= 8 ? static_cast<uint8_t>(value) : 1;
  }
  return 1;
}

Turn turn_of(uint8_t orientation) {
  switch (orientation) {
    case 2: return {.columns_reversed = true};
    case 3: return {.columns_reversed = true, .rows_reversed = true};
    case 4: return {.rows_reversed = true};
    case 5: return {.is_transposed = true};
    case 6: return {.is_transposed = true, .rows_reversed = true};
    case 7: return {.is_transposed = true, .columns_reversed = true, .rows_reversed = true};
    case 8: return {.is_transposed = true, .columns_reversed = true};
    default: return {};
  }
}

ImageSize turned_size(Turn turn, ImageSize size) {
  if (turn.is_transposed) std::swap(size.width, size.height);
  return size;
}

Box stored_box(Turn turn, ImageSize stored, Box box) {
  if (turn.is_transposed) {
    std::swap(box.left, box.top);
    std::swap(box.width, box.height);
  }
  if (turn.columns_reversed) box.left = stored.width - box.left - box.width;
  if (turn.rows_reversed) box.top = stored.height - box.top - box.height;
  return box;
}

void turn_upright(Turn turn, const Pixels& stored, Pixels& upright) {
  upright.size = turned_size(turn, stored.size);
  upright.rgb.resize(stored.rgb.size());
  // Steps in the stored bytes for one column and one row of the upright image.
  std::ptrdiff_t step_x = 3;
  std::ptrdiff_t step_y = std::ptrdiff_t{3} * stored.size.width;
  const uint8_t* start = stored.rgb.data();
  if (turn.columns_reversed) start += step_x * (stored.size.width - 1);
  if (turn.rows_reversed) start += step_y * (stored.size.height - 1);
  if (turn.columns_reversed) step_x = -step_x;
  if (turn.rows_reversed) step_y = -step_y;
  if (turn.is_transposed) std::swap(step_x, step_y);
  uint8_t* to = upright.rgb.data();
  for (int32_t y = 0; y < upright.size.height; ++y) {
    const uint8_t* from = start + step_y * y;
    for (int32_t x = 0; x < upright.size.width; ++x, from += step_x, to += 3) {
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    }
  }
}

}  // namespace tern
