// What a run file asks of the learner.
#pragma once

#include <filesystem>
#include <string>

#include "train/learner.h"
#include "train/run_config.h"

namespace tern {

// `device` is choose_device()'s; `kernels` is libtern_cuda.so. REQUIRES: config.train.threads is
// decided.
Result<Learner::Setup> learner_setup(const RunConfig& config, ImageShape shape, int64_t classes,
                                     const std::string& device,
                                     const std::filesystem::path& kernels);

}  // namespace tern
