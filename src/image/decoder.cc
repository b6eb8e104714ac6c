#include "image/decoder.h"

#include <algorithm>
#include <cstring>

#include "image/jpeg.h"
#include "image/orientation.h"
#include "image/planes.h"
#include "image/png.h"
#include "image/resize.h"
#include "image/resize_weights.h"

namespace tern {

struct ImageDecoder::State {
  JpegReader jpeg;
  Resizer resizer;
  Pixels decoded;
  Pixels upright;             // where `decoded` is not
  std::vector<uint8_t> grey;  // three equal planes, of which one is wanted

  // `box` of the upright image as 1/reduce of it; the result is in one of the two above.
  Result<const Pixels*> read_jpeg(BytesView stored, Turn turn, ImageSize size, Box box, int reduce);
  // The whole image, likewise.
  Result<const Pixels*> read_png(BytesView stored, Turn turn);
  Status decode(BytesView stored, const ImageInfo& info, const View& view, std::span<uint8_t> out);
  Status decode_rgb(BytesView stored, const ImageInfo& info, Pixels& pixels);
  void drop_huge();
};

namespace {

std::string in_words(ImageSize size) {
  return std::to_string(size.width) + "x" + std::to_string(size.height);
}

// libjpeg rounds up.
int32_t reduced(int32_t side, int reduce) { return (side + reduce - 1) / reduce; }

ImageSize reduced(ImageSize size, int reduce) {
  return {reduced(size.width, reduce), reduced(size.height, reduce)};
}

// The smallest scale at which the part still has the result's size.
int reduction_for(const View& view) {
  if (!view.may_reduce) return 1;
  for (const int reduce : {8, 4, 2}) {
    if (view.width / reduce >= view.out_width && view.height / reduce >= view.out_height) {
      return reduce;
    }
  }
  return 1;
}

// Where a coordinate of the upright image lies at 1/reduce of it. The reduced image covers up to
// reduce - 1 more at the far end of the stored axis, which is the near end if that is reversed.
double reduced_coordinate(double at, int32_t side, int reduce, bool is_reversed) {
  const double more = is_reversed ? reduced(side, reduce) - double{1} * side / reduce : 0;
  return at / reduce + more;
}

View reduced(const View& view, ImageSize size, int reduce, Turn turn) {
  if (reduce == 1) return view;
  const bool x_reversed = turn.is_transposed ? turn.rows_reversed : turn.columns_reversed;
  const bool y_reversed = turn.is_transposed ? turn.columns_reversed : turn.rows_reversed;
  View smaller = view;
  smaller.left = reduced_coordinate(view.left, size.width, reduce, x_reversed);
  smaller.top = reduced_coordinate(view.top, size.height, reduce, y_reversed);
  smaller.width = view.width / reduce;
  smaller.height = view.height / reduce;
  return smaller;
}

// Bytes that are not what the index says were exchanged or damaged since.
Status check_header(BytesView stored, const ImageInfo& info) {
  if (info.format == ImageFormat::raw) {
    if (info.channels != 1 && info.channels != 3) {
      return fail(Code::corrupt, "raw pixels of " + std::to_string(info.channels) +
                                     " channels; 1 and 3 are known: import the data again");
    }
    const int64_t bytes = info.channels * info.size.pixels();
    if (static_cast<int64_t>(stored.size()) == bytes) return {};
    return fail(Code::corrupt, "raw pixels of " + in_words(info.size) + " have " +
                                   std::to_string(bytes) + " bytes, not " +
                                   std::to_string(stored.size()) + "; import the data again");
  }
  ASSIGN_OR_RETURN(ImageInfo found, probe_image(stored));
  // An index of version 0.3 has every PNG as it is stored; it is obeyed, so that its runs go on.
  if (found.format == ImageFormat::png && info.orientation == 1) {
    found.size = turned_size(turn_of(found.orientation), found.size);
    found.orientation = 1;
  }
  if (found.format == info.format && found.size == info.size &&
      found.orientation == info.orientation) {
    return {};
  }
  return fail(Code::corrupt, "the image is " + in_words(found.size) + " and the index says " +
                                 in_words(info.size) +
                                 ", or its format or orientation differs; import the data again");
}

bool is_copy(const View& view) {
  const auto is_whole = [](double begin, double length, int32_t out) {
    return length == out && begin == static_cast<int32_t>(begin);
  };
  return is_whole(view.left, view.width, view.out_width) &&
         is_whole(view.top, view.height, view.out_height);
}

// Rows of raw pixels, cut out and perhaps mirrored.
void copy_planes(const uint8_t* from, const ImageInfo& info, const View& view, uint8_t* to) {
  const auto in_width = static_cast<size_t>(info.size.width);
  const auto in_height = static_cast<size_t>(info.size.height);
  const auto width = static_cast<size_t>(view.out_width);
  const auto height = static_cast<size_t>(view.out_height);
  const auto left = static_cast<size_t>(view.left);
  const auto top = static_cast<size_t>(view.top);
  if (!view.mirror && width == in_width && height == in_height) {
    std::memcpy(to, from, info.channels * width * height);
    return;
  }
  for (size_t c = 0; c < info.channels; ++c) {
    for (size_t y = 0; y < height; ++y, to += width) {
      const uint8_t* row = from + (c * in_height + top + y) * in_width + left;
      if (view.mirror) {
        reverse_bytes(row, width, to);
      } else {
        std::memcpy(to, row, width);
      }
    }
  }
}

void join_planes(const uint8_t* from, const ImageInfo& info, Pixels& pixels) {
  const auto count = static_cast<size_t>(info.size.pixels());
  pixels.size = info.size;
  pixels.rgb.resize(3 * count);
  // Grey is the same plane three times.
  join_rgb(from, info.channels == 3 ? count : 0, count, pixels.rgb.data());
}

const uint8_t* data_of(BytesView bytes) { return reinterpret_cast<const uint8_t*>(bytes.data()); }

View whole_view(ImageSize size) {
  return {.width = static_cast<double>(size.width),
          .height = static_cast<double>(size.height),
          .out_width = size.width,
          .out_height = size.height};
}

}  // namespace

Result<const Pixels*> ImageDecoder::State::read_jpeg(BytesView stored, Turn turn, ImageSize size,
                                                     Box box, int reduce) {
  const ImageSize stored_size = reduced(turned_size(turn, size), reduce);
  RETURN_IF_ERROR(jpeg.read(stored, stored_box(turn, stored_size, box), reduce, decoded));
  if (turn == Turn{}) return &decoded;
  turn_upright(turn, decoded, upright);
  return &upright;
}

Result<const Pixels*> ImageDecoder::State::read_png(BytesView stored, Turn turn) {
  RETURN_IF_ERROR(tern::read_png(stored, decoded));
  if (turn == Turn{}) return &decoded;
  turn_upright(turn, decoded, upright);
  return &upright;
}

void ImageDecoder::State::drop_huge() {
  for (std::vector<uint8_t>* buffer : {&decoded.rgb, &upright.rgb, &grey}) {
    if (buffer->capacity() > kKeptBytesMax) std::vector<uint8_t>().swap(*buffer);
  }
}

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::~ImageDecoder() = default;

size_t ImageDecoder::kept_bytes() const {
  return state_->decoded.rgb.capacity() + state_->upright.rgb.capacity() + state_->grey.capacity();
}

Status ImageDecoder::decode(BytesView stored, const ImageInfo& info, const View& view,
                            std::span<uint8_t> out) {
  Status decoded = state_->decode(stored, info, view, out);
  state_->drop_huge();
  return decoded;
}

Status ImageDecoder::State::decode(BytesView stored, const ImageInfo& info, const View& view,
                                   std::span<uint8_t> out) {
  const int64_t out_pixels = int64_t{view.out_width} * view.out_height;
  TERN_CHECK(static_cast<int64_t>(out.size()) == info.channels * out_pixels);
  RETURN_IF_ERROR(check_header(stored, info));
  switch (info.format) {
    case ImageFormat::raw: {
      if (is_copy(view)) {
        copy_planes(data_of(stored), info, view, out.data());
        return {};
      }
      join_planes(data_of(stored), info, decoded);
      if (info.channels == 3) {
        resizer.resize(decoded, view, out);
        return {};
      }
      grey.resize(3 * out.size());
      resizer.resize(decoded, view, grey);
      std::copy_n(grey.begin(), out.size(), out.begin());
      return {};
    }
    case ImageFormat::png: {
      ASSIGN_OR_RETURN(const Pixels* pixels, read_png(stored, turn_of(info.orientation)));
      resizer.resize(*pixels, view, out);
      return {};
    }
    case ImageFormat::jpeg: {
      const Turn turn = turn_of(info.orientation);
      const int reduce = reduction_for(view);
      View part = reduced(view, info.size, reduce, turn);
      const ImageSize size = reduced(info.size, reduce);
      const TouchedPixels x = touched_pixels(part.left, part.width, size.width);
      const TouchedPixels y = touched_pixels(part.top, part.height, size.height);
      const Box box{x.begin, y.begin, x.count, y.count};
      ASSIGN_OR_RETURN(const Pixels* pixels, read_jpeg(stored, turn, info.size, box, reduce));
      part.left = x.offset;
      part.top = y.offset;
      resizer.resize(*pixels, part, out);
      return {};
    }
  }
  return fail(Code::corrupt, "an image format that is not known; import the data again");
}

Status ImageDecoder::decode_whole(BytesView stored, const ImageInfo& info, std::span<uint8_t> out) {
  return decode(stored, info, whole_view(info.size), out);
}

Status ImageDecoder::decode_rgb(BytesView stored, const ImageInfo& info, Pixels& pixels) {
  Status decoded = state_->decode_rgb(stored, info, pixels);
  state_->drop_huge();
  return decoded;
}

Status ImageDecoder::State::decode_rgb(BytesView stored, const ImageInfo& info, Pixels& pixels) {
  RETURN_IF_ERROR(check_header(stored, info));
  const Turn turn = turn_of(info.orientation);
  Pixels& as_stored = turn == Turn{} ? pixels : decoded;
  switch (info.format) {
    case ImageFormat::raw: join_planes(data_of(stored), info, pixels); return {};
    case ImageFormat::png: RETURN_IF_ERROR(tern::read_png(stored, as_stored)); break;
    case ImageFormat::jpeg: {
      const ImageSize size = turned_size(turn, info.size);
      const Box all{0, 0, size.width, size.height};
      RETURN_IF_ERROR(jpeg.read(stored, all, /*reduce=*/1, as_stored));
      break;
    }
    default: return fail(Code::corrupt, "an image format that is not known; import the data again");
  }
  if (turn != Turn{}) turn_upright(turn, decoded, pixels);
  return {};
}

}  // namespace tern
