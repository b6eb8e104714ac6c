// JPEGs of every kind for the tests, made and decoded by libjpeg in the plainest way.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

// After <cstddef> and <cstdio>, whose types it uses without including them.
#include <jpeglib.h>

#include "image/image.h"

namespace tern {

struct JpegKind {
  int width = 0;
  int height = 0;
  int components = 3;
  J_COLOR_SPACE colours = JCS_YCbCr;
  int luma_across = 1;  // sampling factors; 2 and 1 are 4:2:2, 2 and 2 are 4:2:0
  int luma_down = 1;
  bool is_progressive = false;
  bool is_arithmetic = false;
  bool is_incomplete = false;  // progressive, with coefficients that are never sent in full
  bool has_a_scan_each = false;
  bool is_optimised = false;  // Huffman tables of its own
  int restart_mcus = 0;
  int quality = 90;
};

// Sharp and colourful everywhere, so that a wrong neighbour is seen.
inline uint8_t test_sample(int x, int y, int c) {
  uint32_t hash = static_cast<uint32_t>(x / 3) * 0x9E3779B1U ^
                  static_cast<uint32_t>(y / 3) * 0x85EBCA77U ^
                  static_cast<uint32_t>(c + 1) * 0xC2B2AE3DU;
  hash ^= hash >> 15U;
  hash *= 0x2C1B3C6DU;
  hash ^= hash >> 13U;
  return static_cast<uint8_t>(hash);
}

inline void set_kind(jpeg_compress_struct& info, const JpegKind& kind) {
  info.image_width = static_cast<JDIMENSION>(kind.width);
  info.image_height = static_cast<JDIMENSION>(kind.height);
  info.input_components = kind.components;
  info.in_color_space = kind.components == 1   ? JCS_GRAYSCALE
                        : kind.components == 3 ? JCS_RGB
                                               : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.colours);
  jpeg_set_quality(&info, kind.quality, TRUE);
  for (int c = 0; c < kind.components; ++c) {
    const bool is_full = c == 0 || c == 3;
    info.comp_info[c].h_samp_factor = is_full ? kind.luma_across : 1;
    info.comp_info[c].v_samp_factor = is_full ? kind.luma_down : 1;
  }
  info.arith_code = kind.is_arithmetic ? TRUE : FALSE;
  info.optimize_coding = kind.is_optimised ? TRUE : FALSE;
  info.restart_interval = static_cast<unsigned>(kind.restart_mcus);
}

inline Bytes make_jpeg(const JpegKind& kind) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &made, &size);
  set_kind(info, kind);
  if (kind.is_progressive) jpeg_simple_progression(&info);
  static const jpeg_scan_info kUnfinished[] = {{3, {0, 1, 2}, 0, 0, 0, 0}, {1, {0}, 1, 5, 0, 2}};
  if (kind.is_incomplete) {
    info.scan_info = kUnfinished;
    info.num_scans = 2;
  }
  static const jpeg_scan_info kOneEach[] = {
      {1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
  if (kind.has_a_scan_each) {
    info.scan_info = kOneEach;
    info.num_scans = 3;
  }
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row(static_cast<size_t>(kind.width * kind.components));
  for (int y = 0; y < kind.height; ++y) {
    for (size_t i = 0; i < row.size(); ++i) {
      const int at = static_cast<int>(i);
      row[i] = test_sample(at / kind.components, y, at % kind.components);
    }
    JSAMPROW from = row.data();
    jpeg_write_scanlines(&info, &from, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes bytes(reinterpret_cast<const char*>(made), size);
  std::free(made);
  return bytes;
}

// The whole image as libjpeg gives it: RGB, or CMYK where the image is. Exits on damage.
inline Pixels decode_plainly(BytesView encoded, int reduce = 1) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
  jpeg_read_header(&info, TRUE);
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(reduce);
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  Pixels pixels;
  pixels.size = {static_cast<int32_t>(info.output_width), static_cast<int32_t>(info.output_height)};
  const size_t row_bytes = info.output_width * static_cast<size_t>(info.output_components);
  pixels.rgb.resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW to = pixels.rgb.data() + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &to, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return pixels;
}

inline std::vector<uint8_t> cut(const Pixels& whole, const Box& box) {
  std::vector<uint8_t> part;
  for (int y = box.top; y < box.top + box.height; ++y) {
    const auto* from = whole.rgb.data() + 3 * (int64_t{y} * whole.size.width + box.left);
    part.insert(part.end(), from, from + 3 * box.width);
  }
  return part;
}

}  // namespace tern
