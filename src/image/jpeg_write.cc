// Writing JPEGs: the same coefficients in another coding, and pixels anew.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "image/jpeg.h"
#include "image/jpeg_errors.h"

namespace tern {
namespace {

// Where libjpeg writes to. Its own (jpeg_mem_dest) cannot give back what it took if it fails.
struct BytesSink : jpeg_destination_mgr {
  static constexpr size_t kFirstBytes = size_t{64} << 10U;

  Bytes bytes;

  BytesSink() : jpeg_destination_mgr{} {
    init_destination = [](j_compress_ptr info) { of(info).grow(info, kFirstBytes); };
    empty_output_buffer = [](j_compress_ptr info) -> boolean {
      // libjpeg asks when all of it is full, whatever free_in_buffer says.
      of(info).grow(info, 2 * of(info).bytes.size());
      return TRUE;
    };
    term_destination = [](j_compress_ptr info) {
      of(info).bytes.resize(of(info).bytes.size() - of(info).free_in_buffer);
    };
  }

  static BytesSink& of(j_compress_ptr info) { return *static_cast<BytesSink*>(info->dest); }

  void grow(j_compress_ptr info, size_t size) {
    auto& errors = *static_cast<JpegErrors*>(info->err);
    const size_t used = bytes.size();
    bool is_grown = true;
    try {
      bytes.resize(size);
    } catch (const std::bad_alloc&) {
      is_grown = false;
    }
    // Outside the handler: a jump out of one would never end the exception.
    if (!is_grown) run_out_of_memory(errors);
    next_output_byte = reinterpret_cast<JOCTET*>(bytes.data() + used);
    free_in_buffer = size - used;
  }
};

struct Writer {
  jpeg_compress_struct info{};
  JpegErrors errors;
  BytesSink sink;

  Writer() { info.err = &errors; }
  ~Writer() { jpeg_destroy_compress(&info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

struct Transcoder {
  jpeg_decompress_struct from{};
  JpegScanLimit scan_limit;
  // What stands in front of the first scan. Decoders do not look for markers behind it.
  int marker_count = 0;
  bool has_adobe_marker = false;
  Writer to;

  Transcoder() { from.err = &to.errors; }
  ~Transcoder() { jpeg_destroy_decompress(&from); }
  Transcoder(const Transcoder&) = delete;
  Transcoder& operator=(const Transcoder&) = delete;
};

// libjpeg writes these two by itself where the colours call for them.
bool is_written_already(const jpeg_compress_struct& to, const jpeg_marker_struct& marker) {
  const auto begins_with = [&](const char* name) {
    return marker.data_length >= 5 && std::memcmp(marker.data, name, 5) == 0;
  };
  return (to.write_JFIF_header && marker.marker == JPEG_APP0 && begins_with("JFIF\0")) ||
         (to.write_Adobe_marker && marker.marker == JPEG_APP0 + 14 && begins_with("Adobe"));
}

// The coefficients of `encoded`, and false if some were never sent in full.
bool read_coefficients(Transcoder& coder, BytesView encoded, jvirt_barray_ptr*& coefficients) {
  constexpr unsigned kMarkerBytesMax = 0xFFFF;
  jpeg_decompress_struct& from = coder.from;
  jpeg_create_decompress(&from);
  from.progress = &coder.scan_limit;
  jpeg_save_markers(&from, JPEG_COM, kMarkerBytesMax);
  for (int i = 0; i < 16; ++i) jpeg_save_markers(&from, JPEG_APP0 + i, kMarkerBytesMax);
  jpeg_mem_src(&from, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
  jpeg_read_header(&from, TRUE);
  const int64_t pixels = int64_t{from.image_width} * from.image_height;
  // As JpegReader: memory only for what these bytes can hold.
  if (pixels > kImagePixelsMax ||
      pixels / (from.arith_code ? 8192 : 512) > int64_t(encoded.size())) {
    give_up(coder.to.errors, "it claims more pixels than its bytes can hold");
  }
  for (const auto* marker = from.marker_list; marker != nullptr; marker = marker->next) {
    ++coder.marker_count;
  }
  coder.has_adobe_marker = from.saw_Adobe_marker != FALSE;
  coefficients = jpeg_read_coefficients(&from);
  for (int c = 0; c < from.num_components; ++c) {
    if (from.comp_info[c].quant_table == nullptr) return false;  // it is in no scan
    if (!from.progressive_mode) continue;
    for (int i = 0; i < DCTSIZE2; ++i) {
      if (from.coef_bits[c][i] != 0) return false;
    }
  }
  return true;
}

void write_coefficients(Transcoder& coder, jvirt_barray_ptr* coefficients) {
  jpeg_compress_struct& to = coder.to.info;
  jpeg_create_compress(&to);
  to.dest = &coder.to.sink;
  jpeg_copy_critical_parameters(&coder.from, &to);
  to.optimize_coding = TRUE;
  // CMYK means the opposite without Adobe's marker.
  if (to.jpeg_color_space == JCS_CMYK && !coder.has_adobe_marker) {
    to.write_Adobe_marker = FALSE;
  }
  jpeg_write_coefficients(&to, coefficients);
  const jpeg_marker_struct* marker = coder.from.marker_list;
  for (int i = 0; i < coder.marker_count; ++i, marker = marker->next) {
    if (is_written_already(to, *marker)) continue;
    jpeg_write_marker(&to, marker->marker, marker->data, marker->data_length);
  }
  jpeg_finish_compress(&to);
}

}  // namespace

Result<Bytes> jpeg_to_baseline(BytesView encoded) {
  Transcoder coder;
  bool is_complete = true;
  const bool is_done = run_guarded(coder.to.errors, [&] {
    jvirt_barray_ptr* coefficients = nullptr;
    is_complete = read_coefficients(coder, encoded, coefficients);
    if (is_complete) write_coefficients(coder, coefficients);
  });
  if (!is_done) return coder.to.errors.to_error();
  // Decoders smooth over what a progressive image leaves out, and only there; and they never look
  // at the quantisation of what is in no scan.
  if (!is_complete) return Bytes(encoded);
  return std::move(coder.to.sink.bytes);
}

Result<Bytes> encode_jpeg(const Pixels& pixels, int quality) {
  TERN_CHECK(quality >= 1 && quality <= 100);
  TERN_CHECK(pixels.size.width >= 1 && pixels.size.height >= 1);
  TERN_CHECK(pixels.rgb.size() == 3 * static_cast<size_t>(pixels.size.pixels()));
  if (std::max(pixels.size.width, pixels.size.height) > JPEG_MAX_DIMENSION) {
    return fail(Code::invalid, "a JPEG has at most 65,500 pixels on a side; write a smaller copy");
  }
  Writer writer;
  jpeg_compress_struct& info = writer.info;
  const bool is_done = run_guarded(writer.errors, [&] {
    jpeg_create_compress(&info);
    info.dest = &writer.sink;
    info.image_width = static_cast<JDIMENSION>(pixels.size.width);
    info.image_height = static_cast<JDIMENSION>(pixels.size.height);
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);  // 4:2:0, baseline, the exact transform
    jpeg_set_quality(&info, quality, TRUE);
    info.optimize_coding = TRUE;
    jpeg_start_compress(&info, TRUE);
    const size_t row_bytes = 3 * static_cast<size_t>(info.image_width);
    while (info.next_scanline < info.image_height) {
      // libjpeg only reads from it.
      JSAMPROW row = const_cast<uint8_t*>(pixels.rgb.data()) + info.next_scanline * row_bytes;
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
  });
  if (!is_done) return writer.errors.to_error();
  return std::move(writer.sink.bytes);
}

}  // namespace tern
