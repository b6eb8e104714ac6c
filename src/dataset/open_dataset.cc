#include <fmt/format.h>

#include <new>

#include "dataset/cifar10.h"
#include "dataset/dataset.h"
#include "dataset/idx.h"
#include "dataset/in_memory_dataset.h"
#include "dataset/options.h"

namespace tern {
namespace {

Result<std::unique_ptr<Dataset>> open_format(const DataOptions& options, Split split) {
  if (options.format == "idx") return open_idx(options, split);
  if (options.format == "cifar10") return open_cifar10(options, split);
  return fail(Code::invalid, fmt::format("there is no data format '{}'; set data.format to idx or "
                                         "cifar10",
                                         options.format));
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_dataset(const DataOptions& options, Split split) {
  try {
    return open_format(options, split).at(fmt::format("open the {} data", split_name(split)));
  } catch (const std::bad_alloc&) {
    // The one place where this much memory is asked for at once, so it is worth a message.
    return fail(Code::exhausted,
                fmt::format("the {} data in {} does not fit in memory; use a machine with more",
                            split_name(split), options.path));
  }
}

}  // namespace tern
