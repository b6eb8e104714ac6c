// A look at the GPU, as the sampler wants it.
#pragma once

#include <vector>

#include "cuda/gpu.h"
#include "report/event_format.h"

namespace tern {

// "gpu/power_watts" and so on (docs/observe.md); what the GPU does not tell is left out, and a GPU
// that is lost tells nothing. Takes a few milliseconds.
std::vector<Scalar> gpu_sample(GpuDriver& driver, int index);

}  // namespace tern
