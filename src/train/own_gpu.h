// Of several ranks of a machine, each has a GPU of its own.
#pragma once

#include <cstdint>
#include <string>

#include "core/metadata_endpoint.h"
#include "core/result.h"

namespace tern {

// What CUDA_VISIBLE_DEVICES must be for rank `index` of a machine with so many GPUs, of which
// `visible` (the variable as it is; empty: all) shows some. failed_precondition if there is none
// left for it.
Result<std::string> gpu_of_rank(const std::string& visible, int64_t gpus, int64_t index);

// Shows this process its own GPU and no other, before CUDA is loaded: whichever supervisor,
// torchrun's too, has started it. Does nothing where there is no GPU.
Status take_own_gpu(const VariableReader& variable);

}  // namespace tern
