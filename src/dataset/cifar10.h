// CIFAR-10's binary batches: records of one label byte and 3 x 32 x 32 pixel bytes.
//
// https://www.cs.toronto.edu/~kriz/cifar.html, "binary version".
#pragma once

#include <memory>

#include "dataset/dataset.h"
#include "dataset/options.h"

namespace tern {

// Reads data_batch_1.bin to data_batch_5.bin (train) or test_batch.bin (test) from options.path, or
// from the folder cifar-10-batches-bin in it, which is what the published archive unpacks to.
Result<std::unique_ptr<Dataset>> open_cifar10(const DataOptions& options, Split split);

}  // namespace tern
