// CIFAR-10's and CIFAR-100's binary batches (cs.toronto.edu/~kriz/cifar.html), in a folder or an
// archive. A record is one label byte (CIFAR-100: coarse, then fine; the fine one is used) and 3072
// bytes of pixels, 32x32, channel by channel.
#pragma once

#include <memory>

#include "core/result.h"
#include "import/file_walk.h"
#include "import/source.h"
#include "import/survey.h"

namespace tern {

bool looks_like_cifar(const Survey& survey);

// REQUIRES: looks_like_cifar(survey), and it is of `files`. `invalid` names a batch that is
// missing.
Result<std::unique_ptr<Source>> open_cifar(std::unique_ptr<FileWalk> files, const Survey& survey,
                                           const SourceOptions& options);

}  // namespace tern
