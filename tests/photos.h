// Pictures like a user's, made on the spot: JPEG files of many sizes in a folder per class.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tern {

struct Photos {
  int64_t train_per_class = 24;
  int64_t test_per_class = 8;
  uint64_t seed = 3;
};

// Writes FOLDER/train/{ants,bees}/N.jpg and FOLDER/val/...: the classes differ in colour, under
// noise, so that training has something to learn.
void write_photos(const std::filesystem::path& folder, const Photos& photos = {});

}  // namespace tern
