// ResNet-18, -34 and -50 as torchvision has them: names, shapes, first weights and arithmetic.
#pragma once

#include <memory>

#include "core/result.h"
#include "model/network.h"

namespace tern {

// Its first weights are those of torchvision's with the same seed. Images of any size work with the
// same weights, also rectangular ones: `invalid` only below 32 pixels a side (8 with the small
// stem), where nothing but padding would be left of them. forward() throws, as PyTorch does, in a
// training step on a single image so small that batch norm gets one value per channel.
//
// REQUIRES: options.name is that of a ResNet (is_resnet).
Result<std::shared_ptr<Network>> make_resnet(const ModelOptions& options, NetworkShape shape);

}  // namespace tern
