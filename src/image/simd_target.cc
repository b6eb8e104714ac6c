#include "image/simd_target.h"

namespace tern {
namespace {

// What each kind of code may use is in Highway's set_macros-inl.h.
int64_t find_supported() {
  int64_t targets = HWY_SCALAR | HWY_EMU128;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("ssse3")) return targets;
  targets |= HWY_SSSE3;
  const bool has_sse4 = __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
                        __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  if (!has_sse4) return targets;
  targets |= HWY_SSE4;
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                        __builtin_cpu_supports("f16c");
  if (!has_avx2) return targets;
  targets |= HWY_AVX2;
  const bool has_avx3 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (has_avx3) targets |= HWY_AVX3;
#endif
  return targets;
}

}  // namespace

int64_t supported_targets() {
  static const int64_t targets = find_supported();
  return targets;
}

hwy::ChosenTarget& chosen_target() {
  static hwy::ChosenTarget chosen;
  static const bool is_chosen = [] {
    chosen.Update(supported_targets());
    return true;
  }();
  static_cast<void>(is_chosen);
  return chosen;
}

}  // namespace tern
