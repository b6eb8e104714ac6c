#include "train/run_data.h"

#include <fmt/format.h>

#include "core/hash.h"

namespace tern {

Result<RunData> open_run_data(const RunConfig& config, const OnStageFailure& on_stage_failure) {
  RunData data;
  ASSIGN_OR_RETURN(data.train, open_dataset(config.data, Split::train, on_stage_failure));
  ASSIGN_OR_RETURN(data.test, open_dataset(config.data, Split::test, on_stage_failure));
  data.shape = data.train->shape();
  if (config.image.size > 0) {
    data.shape.height = data.shape.width = config.image.size;
  } else if (data.shape.bytes() == 0 || data.test->shape().bytes() == 0) {
    return fail(
        Code::invalid,
        fmt::format("the images of {} have many sizes; set image.size to the side in pixels "
                    "that the network is to see, for example --set image.size=224",
                    data.train->name()));
  } else if (data.train->shape() != data.test->shape()) {
    return fail(Code::corrupt, fmt::format("{} and {} have images of different shapes; are they "
                                           "halves of one data set?",
                                           data.train->name(), data.test->name()));
  }
  if (data.train->shape().channels != data.test->shape().channels) {
    return fail(
        Code::corrupt,
        fmt::format("{} and {} have different numbers of colour channels; are they halves of "
                    "one data set?",
                    data.train->name(), data.test->name()));
  }
  ASSIGN_OR_RETURN(const Shuffle shuffle, parse_shuffle(config.data.shuffle));
  data.id = data.train->id();
  if (shuffle.order == Order::windowed) {
    Sha256 hash;
    hash.update_field(data.id);
    for (const int64_t samples : data.train->shards()) {
      hash.update_number(static_cast<uint64_t>(samples));
    }
    data.id = to_hex(hash.finish());
  }
  data.plan = std::make_unique<Plan>(data.train->id(), data.train->size(),
                                     static_cast<uint64_t>(config.train.seed), config.train.batch,
                                     shuffle, data.train->shards());
  return data;
}

}  // namespace tern
