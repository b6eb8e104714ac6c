// The format: https://www.w3.org/TR/png-3/.
#include "image/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <new>

#include "image/orientation.h"

namespace tern {

namespace {

constexpr BytesView kSignature("\x89PNG\r\n\x1A\n", 8);
// Signature, then IHDR: length, name, 13 bytes, checksum.
constexpr size_t kHeaderBytes = 8 + 8 + 13 + 4;
// deflate makes at most 1032 bytes of one, so that a short file cannot ask for much memory.
constexpr uint64_t kDeflateRatioMax = 1032;
// Colour profiles and texts, which we do not read, may unpack to so much.
constexpr png_alloc_size_t kChunkBytesMax = png_alloc_size_t{8} << 20;

// libpng's way out is longjmp, so nothing with a destructor may live in a function that it leaves:
// all state is here.
struct PngState {
  BytesView from;       // reading: what is left
  Bytes* to = nullptr;  // writing
  png_structp png = nullptr;
  png_infop info = nullptr;
  char reason[128] = {};  // of the way out
  bool is_out_of_memory = false;
};

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  auto* state = static_cast<PngState*>(png_get_error_ptr(png));
  const size_t size = std::min(std::strlen(message), sizeof state->reason - 1);
  std::memcpy(state->reason, message, size);
  state->reason[size] = '\0';
  png_longjmp(png, 1);
}

// libpng and zlib say in many words that there was no memory; this is where it is known.
png_voidp take_memory(png_structp png, png_alloc_size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) static_cast<PngState*>(png_get_mem_ptr(png))->is_out_of_memory = true;
  return memory;
}

void free_memory(png_structp /*png*/, png_voidp memory) { std::free(memory); }

void ignore_warning(png_structp /*png*/, png_const_charp /*message*/) {}

void give_bytes(png_structp png, png_bytep to, size_t size) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (size > state->from.size()) png_error(png, "the file ends early");
  std::memcpy(to, state->from.data(), size);
  state->from.remove_prefix(size);
}

void take_bytes(png_structp png, png_bytep from, size_t size) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  bool has_room = true;
  try {
    state->to->append(reinterpret_cast<const char*>(from), size);
  } catch (const std::bad_alloc&) {
    has_room = false;
  }
  if (!has_room) png_error(png, "out of memory");
}

// Releases libpng's memory, whichever way a function ends.
struct PngEnd {
  PngState& state;
  bool is_write = false;
  ~PngEnd() {
    if (is_write) {
      png_destroy_write_struct(&state.png, &state.info);
    } else {
      png_destroy_read_struct(&state.png, &state.info, nullptr);
    }
  }
};

// All that lies behind the header comes as RGB of 8 bits.
bool start_reading(PngState& state) {
  if (setjmp(png_jmpbuf(state.png)) != 0) return false;
  png_set_user_limits(state.png, kImageSideMax, kImageSideMax);
  png_set_chunk_malloc_max(state.png, kChunkBytesMax);
  // libpng takes the memory that an eXIf chunk claims whatever that limit is; we look for it
  // ourselves.
  png_set_keep_unknown_chunks(state.png, PNG_HANDLE_CHUNK_NEVER,
                              reinterpret_cast<png_const_bytep>("eXIf"), 1);
  png_read_info(state.png, state.info);
  png_set_expand(state.png);
  png_set_scale_16(state.png);
  png_set_gray_to_rgb(state.png);
  png_set_strip_alpha(state.png);
  png_set_interlace_handling(state.png);
  png_read_update_info(state.png, state.info);
  return true;
}

bool read_rows(PngState& state, int passes, int32_t height, size_t row_bytes, uint8_t* rgb) {
  if (setjmp(png_jmpbuf(state.png)) != 0) return false;
  for (int pass = 0; pass < passes; ++pass) {
    for (int32_t y = 0; y < height; ++y) {
      png_read_row(state.png, rgb + static_cast<size_t>(y) * row_bytes, nullptr);
    }
  }
  png_read_end(state.png, nullptr);
  return true;
}

bool write_rows(PngState& state, const Pixels& pixels, size_t row_bytes) {
  if (setjmp(png_jmpbuf(state.png)) != 0) return false;
  png_set_IHDR(state.png, state.info, static_cast<png_uint_32>(pixels.size.width),
               static_cast<png_uint_32>(pixels.size.height), 8, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(state.png, state.info);
  for (int32_t y = 0; y < pixels.size.height; ++y) {
    png_write_row(state.png, pixels.rgb.data() + static_cast<size_t>(y) * row_bytes);
  }
  png_write_end(state.png, nullptr);
  return true;
}

Error corrupt(const std::string& reason) {
  return fail(Code::corrupt, "PNG: " + reason + "; fetch the file again or leave it out");
}

// Why libpng has left.
Error error_of(const PngState& state) {
  if (!state.is_out_of_memory) return corrupt(state.reason);
  return fail(Code::exhausted, "no memory is left to decode a PNG; use fewer loader threads");
}

uint32_t number_at(BytesView bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8U | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// Chunk by chunk, without looking into them: there are few, and eXIf may be the last.
uint8_t orientation_of(BytesView encoded) {
  constexpr size_t kChunkFrame = 4 + 4 + 4;  // length, name, checksum
  for (size_t at = kSignature.size(); encoded.size() - at >= kChunkFrame;) {
    const size_t length = number_at(encoded, at);
    if (length > encoded.size() - at - kChunkFrame) return 1;
    if (encoded.substr(at + 4, 4) == "eXIf")
      return exif_orientation(encoded.substr(at + 8, length));
    at += kChunkFrame + length;
  }
  return 1;
}

// Bytes that the compressed data must make at the least: without filter bytes and alpha's.
uint64_t least_unpacked_bytes(BytesView encoded, ImageSize size) {
  const auto depth = static_cast<uint8_t>(encoded[24]);
  const bool is_colour = encoded[25] == PNG_COLOR_TYPE_RGB || encoded[25] == PNG_COLOR_TYPE_RGBA;
  return static_cast<uint64_t>(size.pixels()) * depth * (is_colour ? 3 : 1) / 8;
}

}  // namespace

Result<ImageInfo> probe_png(BytesView encoded) {
  if (encoded.size() < kHeaderBytes || !encoded.starts_with(kSignature)) {
    return corrupt("the file ends within its header");
  }
  if (number_at(encoded, 8) != 13 || encoded.substr(12, 4) != "IHDR") {
    return corrupt("the header is damaged");
  }
  const int64_t width = number_at(encoded, 16);
  const int64_t height = number_at(encoded, 20);
  if (width < 1 || height < 1 || width > kImageSideMax || height > kImageSideMax ||
      width * height > kImagePixelsMax) {
    return corrupt("its header says " + std::to_string(width) + "x" + std::to_string(height) +
                   " pixels, which is none, or more than is taken");
  }
  const ImageSize size{static_cast<int32_t>(width), static_cast<int32_t>(height)};
  if (least_unpacked_bytes(encoded, size) / kDeflateRatioMax > encoded.size()) {
    return corrupt("too short for the size that its header says");
  }
  const uint8_t orientation = orientation_of(encoded);
  return ImageInfo{.format = ImageFormat::png,
                   .size = turned_size(turn_of(orientation), size),
                   .orientation = orientation};
}

Status read_png(BytesView encoded, Pixels& pixels) {
  ASSIGN_OR_RETURN(const ImageInfo info, probe_png(encoded));
  const ImageSize size = turned_size(turn_of(info.orientation), info.size);
  PngState state{.from = encoded};
  const PngEnd end{state};
  state.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &state, leave, ignore_warning, &state,
                                       take_memory, free_memory);
  if (state.png != nullptr) state.info = png_create_info_struct(state.png);
  if (state.info == nullptr) return fail(Code::exhausted, "PNG: no memory; free some");
  png_set_read_fn(state.png, &state, give_bytes);
  if (!start_reading(state)) return error_of(state);
  const size_t row_bytes = 3 * static_cast<size_t>(size.width);
  if (png_get_rowbytes(state.png, state.info) != row_bytes) return corrupt("not RGB after all");
  try {
    pixels.rgb.resize(row_bytes * static_cast<size_t>(size.height));
  } catch (const std::bad_alloc&) {
    return fail(Code::exhausted, "PNG: no memory for its pixels; free some");
  }
  pixels.size = size;
  const int passes = png_get_interlace_type(state.png, state.info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
  if (!read_rows(state, passes, size.height, row_bytes, pixels.rgb.data())) {
    return error_of(state);
  }
  return {};
}

Result<Bytes> write_png(const Pixels& pixels) {
  const size_t row_bytes = 3 * static_cast<size_t>(pixels.size.width);
  TERN_CHECK(pixels.size.pixels() > 0);
  TERN_CHECK(pixels.rgb.size() == row_bytes * static_cast<size_t>(pixels.size.height));
  Bytes encoded;
  PngState state{.to = &encoded};
  const PngEnd end{state, /*is_write=*/true};
  state.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &state, leave, ignore_warning);
  if (state.png != nullptr) state.info = png_create_info_struct(state.png);
  if (state.info == nullptr) return fail(Code::exhausted, "PNG: no memory; free some");
  png_set_write_fn(state.png, &state, take_bytes, nullptr);
  if (!write_rows(state, pixels, row_bytes)) {
    return fail(Code::exhausted,
                std::string("write a PNG: ") + state.reason + "; free some memory");
  }
  return encoded;
}

}  // namespace tern
