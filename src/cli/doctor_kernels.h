// The loop that measures a core's peak, in every width that this program can use.
#pragma once

#include <string_view>

namespace tern {

struct PeakKernel {
  std::string_view instructions;  // "avx512f"
  double flops_per_round = 0;
  // Does that many rounds. The result depends on all of them, so that none can be left out.
  float (*run)(int rounds) = nullptr;
};

// The widest one that this CPU has.
PeakKernel choose_peak_kernel();

}  // namespace tern
