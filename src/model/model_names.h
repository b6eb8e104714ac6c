// What a model's name alone says. No LibTorch here: the run file is judged before that is loaded.
#pragma once

#include <string_view>

namespace tern {

// torchvision's: resnet18, resnet34, resnet50.
inline bool is_resnet(std::string_view model_name) {
  return model_name == "resnet18" || model_name == "resnet34" || model_name == "resnet50";
}

// Whether one set of weights takes images of any size, as phases of several sizes need. The others
// have a fully connected layer as large as their images.
inline bool takes_any_size(std::string_view model_name) { return is_resnet(model_name); }

}  // namespace tern
