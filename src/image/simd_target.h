// Which of the functions that Highway compiled, one for each kind of machine, is called. Highway
// chooses by libhwy.so, which measures the timer for 4 ms whenever a program that links it starts;
// so we choose ourselves, and use its headers only.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

namespace tern {

// HWY_AVX2 and the like: all that this machine can run.
int64_t supported_targets();

// The best of them; what a test chooses counts from then on.
hwy::ChosenTarget& chosen_target();

}  // namespace tern

// As HWY_EXPORT and HWY_DYNAMIC_DISPATCH; the first place is Highway's for a choice not yet made.
#define TERN_EXPORT(function)                                                      \
  static decltype(&HWY_STATIC_DISPATCH(function)) const function##_by_target[] = { \
      nullptr, HWY_CHOOSE_TARGET_LIST(function), HWY_CHOOSE_FALLBACK(function)}
#define TERN_DISPATCH(function) (*function##_by_target[chosen_target().GetIndex()])
