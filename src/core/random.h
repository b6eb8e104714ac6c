// Counter-based random numbers: value = f(seed, stream, counter), by Philox4x32-10.
//
// There is no state to carry, save or restore: whoever knows where they are (epoch, position, step)
// knows their random numbers. That is what makes a resumed run draw the same ones.
//
//   Random random(seed, Stream::augment, epoch, position);
//   uint32_t left = random.below(9);      // 0 to 8
//   bool flip = random.below(2) == 1;
#pragma once

#include <array>
#include <cstdint>

namespace tern {

// What the numbers are for; two uses never share a stream. These values are part of the meaning of
// a seed: never renumber, only append.
enum class Stream : uint32_t {
  order = 1,        // the plan's permutation
  augment = 2,      // crops and flips of one sample
  init = 3,         // the model's first weights
  step = 4,         // randomness inside the model (dropout) at one step
  fingerprint = 5,  // synthetic data that stands for no user's
  view = 6,         // which part of one image is seen
  colour = 7,       // changes of one image's colours
  replace = 8,      // which sample stands in for a bad one
};

// The bare function (Salmon et al., SC'11): 10 rounds. Known-answer tests are in random_test.cc.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// One 64-bit value of (seed, stream, a, b): for seeding somebody else's generator.
uint64_t random_value(uint64_t seed, Stream stream, uint64_t a, uint64_t b = 0);

// A short sequence of numbers for one thing, named by (seed, stream, a, b). Cheap to make; not
// thread-safe; not copied by accident because it looks like what it is, a cursor.
class Random {
 public:
  Random(uint64_t seed, Stream stream, uint64_t a, uint64_t b = 0);

  uint32_t next();
  // Uniform in [0, bound), without modulo bias. REQUIRES: bound > 0.
  uint32_t below(uint32_t bound);
  // Uniform in [0, 1), a multiple of 2^-24.
  float uniform();

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  unsigned used_ = 4;
};

}  // namespace tern
