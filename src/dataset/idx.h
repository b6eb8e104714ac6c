// IDX: MNIST's file format, one file of images and one of labels per split.
//
// A file is a magic number 0x000008DD (08: unsigned bytes, DD: how many dimensions), DD sizes, and
// the bytes, row by row; all numbers big-endian. http://yann.lecun.com/exdb/mnist
#pragma once

#include <memory>

#include "dataset/dataset.h"
#include "dataset/options.h"

namespace tern {

// Reads {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, each plain or with .gz,
// from options.path. Images are n x h x w or n x c x h x w.
Result<std::unique_ptr<Dataset>> open_idx(const DataOptions& options, Split split);

}  // namespace tern
