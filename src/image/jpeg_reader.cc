// Decoding the part of a JPEG that is needed.
//
// Huffman codes have no index: what lies above the part must be read, but nothing more is done with
// it (jpeg_skip_scanlines), what lies beside it is read but not transformed (jpeg_crop_scanline),
// and what lies below is not touched at all.
#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "image/jpeg.h"
#include "image/jpeg_errors.h"
#include "image/jpeg_huffman.h"

namespace tern {
namespace {

// One call to libjpeg gives no more rows than the largest vertical sampling factor.
constexpr int kRowsAtOnce = MAX_SAMP_FACTOR;

// The tables that an image may define. libjpeg keeps them from one image to the next, so that an
// image without its own would be decoded with those of whichever came before. So they are ours and
// begin anew each time: the standard Huffman tables, which Motion JPEG leaves out, and no
// quantisation (zeros).
struct JpegTables {
  JHUFF_TBL dc[NUM_HUFF_TBLS] = {};
  JHUFF_TBL ac[NUM_HUFF_TBLS] = {};
  JQUANT_TBL quantisation[NUM_QUANT_TBLS] = {};
};

// A setting up of the compressor is the one way to libjpeg's copy of the standard tables.
bool fill_standard_tables(JpegErrors& errors, JpegTables& tables) {
  jpeg_compress_struct info{};
  info.err = &errors;
  const bool is_filled = run_guarded(errors, [&] {
    jpeg_create_compress(&info);
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    for (int i = 0; i < 2; ++i) {
      tables.dc[i] = *info.dc_huff_tbl_ptrs[i];
      tables.ac[i] = *info.ac_huff_tbl_ptrs[i];
    }
  });
  jpeg_destroy_compress(&info);
  return is_filled;
}

struct Columns {
  int left = 0;
  int right = 0;
};

int dct_size(const jpeg_component_info& component) {
#if JPEG_LIB_VERSION >= 70
  return component.DCT_h_scaled_size;
#else
  return component.DCT_scaled_size;
#endif
}

// libjpeg smooths over the borders of blocks where a progressive image leaves coefficients
// unfinished; that looks two blocks to either side.
bool is_smoothed(const jpeg_decompress_struct& info) {
  constexpr int kSmoothedCoefficients = 10;
  if (!info.progressive_mode || info.coef_bits == nullptr) return false;
  for (int c = 0; c < info.num_components; ++c) {
    const int* bits = info.coef_bits[c];
    if (std::any_of(bits, bits + kSmoothedCoefficients, [](int left) { return left != 0; })) {
      return true;
    }
  }
  return false;
}

// The columns that must be transformed to have those of the box as in the whole image. Chroma that
// is stored at half the width is spread by a filter that looks one sample to either side, and
// libjpeg takes the borders of what it is asked for as those of the image. So a pixel more is asked
// for on the right, and on the left, where libjpeg only begins at whole blocks, one block more if
// the box begins at one.
Columns columns_to_decode(const jpeg_decompress_struct& info, const Box& box, int reduce) {
  const int width = static_cast<int>(info.output_width);
  if (is_smoothed(info)) return {0, width};
  const int block = DCTSIZE / reduce;
  const int step = block * (info.num_components == 1 ? 1 : info.max_h_samp_factor);
  Columns columns{box.left / step * step, box.left + box.width};
  bool is_narrow = false;
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    const int across = component.h_samp_factor * dct_size(component);
    const int down = component.v_samp_factor * dct_size(component);
    is_narrow |= across != block * info.max_h_samp_factor;
    // jpeg_crop_scanline forgets that reduced chroma can be reduced less than luma, which matters
    // where it still has to be spread after that (4:1:1 and rarer).
    const bool is_whole =
        across == block * info.max_h_samp_factor && down == block * info.max_v_samp_factor;
    if (dct_size(component) != block && !is_whole) return {0, width};
  }
  if (!is_narrow) return columns;
  if (columns.left == box.left) columns.left = std::max(0, columns.left - step);
  columns.right = std::min(width, columns.right + 1);
  // With fewer than three samples libjpeg chooses another filter.
  const int least = 3 * info.max_h_samp_factor;
  columns.right = std::max(columns.right, std::min(width, columns.left + least));
  while (columns.left > 0 && columns.right - columns.left < least) columns.left -= step;
  return columns;
}

// As Pillow: ink is what is missing from white, and black darkens all three alike. Adobe's programs
// store how much light is left instead of how much ink there is.
void cmyk_to_rgb(const uint8_t* cmyk, int count, bool is_inverted, uint8_t* rgb) {
  const unsigned flip = is_inverted ? 0 : 255;
  for (int i = 0; i < count; ++i, cmyk += 4, rgb += 3) {
    const unsigned light = cmyk[3] ^ flip;
    for (int c = 0; c < 3; ++c) {
      const unsigned product = (255 - (cmyk[c] ^ flip)) * light + 128;
      rgb[c] = static_cast<uint8_t>(light - ((product + (product >> 8U)) >> 8U));
    }
  }
}

}  // namespace

struct JpegReader::State {
  jpeg_decompress_struct info{};
  JpegErrors errors;
  JpegScanLimit scan_limit;
  JpegHuffman huffman;
  JpegTables tables;
  JpegTables fresh_tables;
  std::vector<uint8_t> rows;  // kRowsAtOnce of them, wider than the box or not yet RGB
  bool is_created = false;
  bool has_adobe_marker = false;  // in front of the first scan; one behind it means nothing

  Status read(BytesView encoded, const Box& box, int reduce, Pixels& pixels);
  void begin(BytesView encoded, int reduce);
  Status check(BytesView encoded, const Box& box) const;
  void decode(const Box& box, int reduce, uint8_t* rgb);
  void decode_through_rows(const Box& box, int left, uint8_t* rgb);
};

JpegReader::JpegReader() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.info.err = &state.errors;
  state.is_created = fill_standard_tables(state.errors, state.fresh_tables) &&
                     run_guarded(state.errors, [&] { jpeg_create_decompress(&state.info); });
  state.info.progress = &state.scan_limit;
  for (int i = 0; i < NUM_HUFF_TBLS; ++i) {
    state.info.dc_huff_tbl_ptrs[i] = &state.tables.dc[i];
    state.info.ac_huff_tbl_ptrs[i] = &state.tables.ac[i];
  }
  for (int i = 0; i < NUM_QUANT_TBLS; ++i) {
    state.info.quant_tbl_ptrs[i] = &state.tables.quantisation[i];
  }
}

JpegReader::~JpegReader() { jpeg_destroy_decompress(&state_->info); }

Status JpegReader::read(BytesView encoded, Box box, int reduce, Pixels& pixels) {
  TERN_CHECK(reduce == 1 || reduce == 2 || reduce == 4 || reduce == 8);
  TERN_CHECK(box.left >= 0 && box.top >= 0 && box.width >= 1 && box.height >= 1);
  if (!state_->is_created) return state_->errors.to_error();
  Status status = state_->read(encoded, box, reduce, pixels);
  // Not jpeg_finish_decompress(), which reads on to the end of the image.
  jpeg_abort_decompress(&state_->info);
  return status;
}

Status JpegReader::State::read(BytesView encoded, const Box& box, int reduce, Pixels& pixels) {
  if (!run_guarded(errors, [&] { begin(encoded, reduce); })) return errors.to_error();
  RETURN_IF_ERROR(check(encoded, box));
  const size_t samples = static_cast<size_t>(info.output_width) *
                         static_cast<size_t>(info.output_components) * kRowsAtOnce;
  pixels.size = {box.width, box.height};
  try {
    pixels.rgb.resize(3 * static_cast<size_t>(pixels.size.pixels()));
    if (rows.size() < samples) rows.resize(samples);
  } catch (const std::bad_alloc&) {
    errors.is_out_of_memory = true;
    return errors.to_error();
  }
  if (!run_guarded(errors, [&] { decode(box, reduce, pixels.rgb.data()); })) {
    return errors.to_error();
  }
  return {};
}

// Up to the first scan. Guarded, as decode() is: no destructors.
void JpegReader::State::begin(BytesView encoded, int reduce) {
  tables = fresh_tables;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
  jpeg_read_header(&info, TRUE);
  has_adobe_marker = info.saw_Adobe_marker != FALSE;
  const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  // The slow but exact transform and the filter for chroma are what Pillow and torchvision use.
  info.dct_method = JDCT_ISLOW;
  info.do_fancy_upsampling = TRUE;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(reduce);
  jpeg_calc_output_dimensions(&info);
}

// Before memory is taken for the pixels.
Status JpegReader::State::check(BytesView encoded, const Box& box) const {
  const int64_t width = info.image_width;
  const int64_t height = info.image_height;
  const std::string claims = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  // A Huffman code takes a bit, and each 8 x 8 pixels have one at least. A hundred bytes can claim
  // gigabytes otherwise.
  // Arithmetic coding can say more with a byte, but photos do not.
  const int64_t per_byte = info.arith_code ? 8192 : 512;
  const bool can_hold = width * height / per_byte <= int64_t(encoded.size());
  if (width * height > kImagePixelsMax || !can_hold) {
    return fail(Code::corrupt,
                "JPEG: it claims " + claims + " in " + std::to_string(encoded.size()) + " bytes");
  }
  if (int64_t{box.left} + box.width > info.output_width ||
      int64_t{box.top} + box.height > info.output_height) {
    return fail(Code::corrupt,
                "JPEG: it has " + claims + " now, fewer than when it was first looked at");
  }
  return {};
}

void JpegReader::State::decode(const Box& box, int reduce, uint8_t* rgb) {
  jpeg_start_decompress(&info);
  for (int c = 0; c < info.num_components; ++c) {
    const JQUANT_TBL* table = info.comp_info[c].quant_table;
    if (table != nullptr && table->quantval[0] == 0) {
      give_up(errors, "it has no quantisation table");
    }
  }
  if (JpegHuffman::can_read(info)) huffman.take_over(info);
  const Columns columns = columns_to_decode(info, box, reduce);
  JDIMENSION left = static_cast<JDIMENSION>(columns.left);
  JDIMENSION width = static_cast<JDIMENSION>(columns.right - columns.left);
  jpeg_crop_scanline(&info, &left, &width);
  if (box.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(box.top));
  if (info.output_components != 3 || info.output_width != static_cast<JDIMENSION>(box.width)) {
    decode_through_rows(box, box.left - columns.left, rgb);
    return;
  }
  const size_t row_bytes = 3 * static_cast<size_t>(box.width);
  for (int done = 0; done < box.height;) {
    const int count = std::min(kRowsAtOnce, box.height - done);
    JSAMPROW to[kRowsAtOnce];
    for (int i = 0; i < count; ++i) to[i] = rgb + static_cast<size_t>(done + i) * row_bytes;
    done += static_cast<int>(jpeg_read_scanlines(&info, to, static_cast<JDIMENSION>(count)));
  }
}

// For rows that begin `left` pixels before the box, or reach beyond it, or are CMYK.
void JpegReader::State::decode_through_rows(const Box& box, int left, uint8_t* rgb) {
  const size_t samples = static_cast<size_t>(info.output_components);
  const size_t row_bytes = 3 * static_cast<size_t>(box.width);
  JSAMPROW to[kRowsAtOnce];
  for (size_t i = 0; i < kRowsAtOnce; ++i) to[i] = rows.data() + i * info.output_width * samples;
  for (int done = 0; done < box.height;) {
    const int wanted = std::min(kRowsAtOnce, box.height - done);
    const int count =
        static_cast<int>(jpeg_read_scanlines(&info, to, static_cast<JDIMENSION>(wanted)));
    for (int i = 0; i < count; ++i, ++done, rgb += row_bytes) {
      const uint8_t* from = to[i] + static_cast<size_t>(left) * samples;
      if (samples == 3) {
        std::memcpy(rgb, from, row_bytes);
      } else {
        cmyk_to_rgb(from, box.width, has_adobe_marker, rgb);
      }
    }
  }
}

}  // namespace tern
