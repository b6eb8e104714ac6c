// EXIF's orientation: how an image as stored becomes the upright one that a person sees.
//
// https://exiftool.org/TagNames/EXIF.html, tag 0x0112; Exif 2.32, 4.6.4 A.
#pragma once

#include "image/image.h"

namespace tern {

// Column x and row y of the upright image are column (is_transposed ? y : x) and row (is_transposed
// ? x : y) of the stored one, counted from the far end where that axis is reversed.
struct Turn {
  bool is_transposed = false;
  bool columns_reversed = false;  // of the stored image
  bool rows_reversed = false;

  bool operator==(const Turn&) const = default;
};

// What EXIF's data (a TIFF header and what follows it) says, 1 to 8; 1 if there is nothing or
// anything is odd, as everybody does.
uint8_t exif_orientation(BytesView tiff);

// Upright as stored (1) for what is not 1 to 8.
Turn turn_of(uint8_t orientation);

// A size on the other side: stored for upright, and upright for stored.
ImageSize turned_size(Turn turn, ImageSize size);

// Where `box` of the upright image lies in the stored one, whose size is `stored`.
Box stored_box(Turn turn, ImageSize stored, Box box);

// Turns stored pixels upright. REQUIRES: they are not the same object.
void turn_upright(Turn turn, const Pixels& stored, Pixels& upright);

}  // namespace tern
