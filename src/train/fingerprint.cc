// What tells one machine's arithmetic from another's.
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/hash.h"
#include "core/random.h"
#include "train/learner.h"
#include "train/warm_up.h"

namespace tern {
namespace {

// Of noise, as large as the run's images.
Batch synthetic_batch(const Learner::Setup& setup) {
  // About as many pixels for small images as for large ones, so that it takes no longer.
  constexpr int64_t kPixels = 65'536;
  const int64_t samples =
      std::clamp<int64_t>(kPixels / std::max<int64_t>(1, setup.shape.height * setup.shape.width),
                          /*lo=*/2, /*hi=*/32);
  Batch batch{.positions = {0, samples}, .shape = setup.shape};
  batch.images.resize(static_cast<size_t>(samples * setup.shape.bytes()));
  Random random(setup.seed, Stream::fingerprint, 0);
  for (uint8_t& pixel : batch.images) pixel = static_cast<uint8_t>(random.next() >> 24U);
  for (int64_t i = 0; i < samples; ++i) batch.labels.push_back(i % setup.classes);
  return batch;
}

// A step of fp16 that is skipped says little about the arithmetic, so it is tried again with the
// smaller scale.
Status one_step(Learner& learner) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    ASSIGN_OR_RETURN(StepResults results, learner.step(/*step=*/0, /*learning_rate=*/0.01));
    ASSIGN_OR_RETURN(const StepResults late, learner.finish_steps());
    results.insert(results.end(), late.begin(), late.end());
    if (!results.at(0).is_skipped) break;
  }
  return {};
}

// What a run chooses is fixed here, so that only the network's shape, the precision and the machine
// are left.
Learner::Setup without_choices(Learner::Setup setup) {
  setup.seed = 0;
  setup.optimizer = {};
  setup.label_smoothing = 0;
  setup.accumulate = 1;
  setup.ema = 0;
  setup.model.dropout = 0;
  setup.model.mean = {0.5};
  setup.model.stddev = {0.25};
  return setup;
}

}  // namespace

std::string instruction_set() { return at::get_cpu_capability(); }

std::string fingerprint_depends_on(Learner::Setup setup) {
  setup = without_choices(std::move(setup));
  setup.model.init.clear();
  OptionSet model;
  describe(model, setup.model);
  return fmt::format("{} {}x{}x{} {} {} {} {} {} {}", model.to_toml(OptionSet::Comments::no),
                     setup.shape.channels, setup.shape.height, setup.shape.width, setup.classes,
                     setup.threads, setup.device, setup.deterministic, setup.kernels.string(),
                     precision_name(setup.precision));
}

Result<std::string> arithmetic_fingerprint(Learner::Setup setup) {
  setup = without_choices(std::move(setup));
  ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner, Learner::create(setup));
  RETURN_IF_ERROR(learner->put(synthetic_batch(setup)));
  RETURN_IF_ERROR(one_step(*learner));
  ASSIGN_OR_RETURN(const Bytes left, learner->save());
  return to_hex(sha256(left)).substr(0, 16);
}

}  // namespace tern
