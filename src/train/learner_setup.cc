#include "train/learner_setup.h"

namespace tern {

Result<Learner::Setup> learner_setup(const RunConfig& config, ImageShape shape, int64_t classes,
                                     const std::string& device,
                                     const std::filesystem::path& kernels) {
  ASSIGN_OR_RETURN(const Precision precision,
                   choose_precision(config.train.precision, device, kernels));
  return Learner::Setup{.model = config.model,
                        .optimizer = config.optimizer,
                        .label_smoothing = config.train.label_smoothing,
                        .seed = static_cast<uint64_t>(config.train.seed),
                        .shape = shape,
                        .classes = classes,
                        .threads = config.train.threads,
                        .device = device,
                        .deterministic = config.train.deterministic,
                        .kernels = kernels,
                        .precision = precision,
                        .accumulate = config.train.accumulate,
                        .ema = config.train.ema};
}

}  // namespace tern
