#include "cli/doctor_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tern {
namespace {

// Ten sums that do not wait for each other: a multiply-add takes 4 or 5 cycles and two can begin in
// each, so that eight to ten keep both units busy. Written out, so that they stay in registers at
// any level of optimisation. The factor and the addend bring the sums to 1.
constexpr int kSums = 10;
constexpr float kFactor = 0.99F;
constexpr float kAddend = 0.01F;

#define TERN_TEN(apply) \
  apply(0) apply(1) apply(2) apply(3) apply(4) apply(5) apply(6) apply(7) apply(8) apply(9)

#if defined(__x86_64__)

__attribute__((target("avx512f"))) float run_avx512f(int rounds) {
  const __m512 factor = _mm512_set1_ps(kFactor);
  const __m512 addend = _mm512_set1_ps(kAddend);
#define TERN_DECLARE(i) __m512 sum##i = _mm512_set1_ps(1.0F + 0.001F * i);
#define TERN_STEP(i) sum##i = _mm512_fmadd_ps(sum##i, factor, addend);
#define TERN_ADD(i) total = _mm512_add_ps(total, sum##i);
  TERN_TEN(TERN_DECLARE)
  for (int round = 0; round < rounds; ++round) {
    TERN_TEN(TERN_STEP)
  }
  __m512 total = _mm512_setzero_ps();
  TERN_TEN(TERN_ADD)
  return _mm512_cvtss_f32(total);
#undef TERN_DECLARE
#undef TERN_STEP
#undef TERN_ADD
}

__attribute__((target("avx2,fma"))) float run_avx2(int rounds) {
  const __m256 factor = _mm256_set1_ps(kFactor);
  const __m256 addend = _mm256_set1_ps(kAddend);
#define TERN_DECLARE(i) __m256 sum##i = _mm256_set1_ps(1.0F + 0.001F * i);
#define TERN_STEP(i) sum##i = _mm256_fmadd_ps(sum##i, factor, addend);
#define TERN_ADD(i) total = _mm256_add_ps(total, sum##i);
  TERN_TEN(TERN_DECLARE)
  for (int round = 0; round < rounds; ++round) {
    TERN_TEN(TERN_STEP)
  }
  __m256 total = _mm256_setzero_ps();
  TERN_TEN(TERN_ADD)
  return _mm256_cvtss_f32(total);
#undef TERN_DECLARE
#undef TERN_STEP
#undef TERN_ADD
}

float run_sse2(int rounds) {
  const __m128 factor = _mm_set1_ps(kFactor);
  const __m128 addend = _mm_set1_ps(kAddend);
#define TERN_DECLARE(i) __m128 sum##i = _mm_set1_ps(1.0F + 0.001F * i);
#define TERN_STEP(i) sum##i = _mm_add_ps(_mm_mul_ps(sum##i, factor), addend);
#define TERN_ADD(i) total = _mm_add_ps(total, sum##i);
  TERN_TEN(TERN_DECLARE)
  for (int round = 0; round < rounds; ++round) {
    TERN_TEN(TERN_STEP)
  }
  __m128 total = _mm_setzero_ps();
  TERN_TEN(TERN_ADD)
  return _mm_cvtss_f32(total);
#undef TERN_DECLARE
#undef TERN_STEP
#undef TERN_ADD
}

#else

// Four floats a register, as every 64-bit CPU of other makers has them.
using Vector = float __attribute__((vector_size(16)));

float run_plain(int rounds) {
  const Vector factor = {kFactor, kFactor, kFactor, kFactor};
  const Vector addend = {kAddend, kAddend, kAddend, kAddend};
#define TERN_DECLARE(i) Vector sum##i = factor * (1.0F + 0.001F * i);
#define TERN_STEP(i) sum##i = sum##i * factor + addend;
#define TERN_ADD(i) total += sum##i;
  TERN_TEN(TERN_DECLARE)
  for (int round = 0; round < rounds; ++round) {
    TERN_TEN(TERN_STEP)
  }
  Vector total = {};
  TERN_TEN(TERN_ADD)
  return total[0];
#undef TERN_DECLARE
#undef TERN_STEP
#undef TERN_ADD
}

#endif

#undef TERN_TEN

// A multiplication and an addition for each float of each sum.
constexpr double flops(int floats) { return 2.0 * floats * kSums; }

}  // namespace

PeakKernel choose_peak_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {"avx512f", flops(16), run_avx512f};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"avx2", flops(8), run_avx2};
  }
  return {"sse2", flops(4), run_sse2};
#else
  return {"plain", flops(4), run_plain};
#endif
}

}  // namespace tern
