#include "train/run_data.h"

#include <fmt/format.h>

namespace tern {

Result<RunData> open_run_data(const RunConfig& config) {
  RunData data;
  ASSIGN_OR_RETURN(data.train, open_dataset(config.data, Split::train));
  ASSIGN_OR_RETURN(data.test, open_dataset(config.data, Split::test));
  if (data.train->shape() != data.test->shape()) {
    return fail(Code::corrupt, fmt::format("{} and {} have images of different shapes; are they "
                                           "halves of one data set?",
                                           data.train->name(), data.test->name()));
  }
  data.plan = std::make_unique<Plan>(data.train->id(), data.train->size(),
                                     static_cast<uint64_t>(config.train.seed), config.train.batch,
                                     Order::shuffled);
  return data;
}

}  // namespace tern
