#include "model/resnet.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <array>
#include <optional>

#include "model/convolve.h"

namespace tern {
namespace {

constexpr std::array<int64_t, 4> kStageWidth = {64, 128, 256, 512};

// What the names stand for.
struct Form {
  std::array<int64_t, 4> blocks;
  bool is_bottleneck;

  // Channels that a block gives for each of its stage's width.
  int64_t expansion() const { return is_bottleneck ? 4 : 1; }
};

std::optional<Form> form_of(const std::string& name) {
  if (name == "resnet18") return Form{{2, 2, 2, 2}, false};
  if (name == "resnet34") return Form{{3, 4, 6, 3}, false};
  if (name == "resnet50") return Form{{3, 4, 6, 3}, true};
  return std::nullopt;
}

torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// A convolution and its batch norm.
struct Layer {
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;

  Layer(int64_t in, int64_t out, int64_t kernel, int64_t stride)
      : conv(convolution(in, out, kernel, stride)), norm(out) {}

  // Not the norm's own forward(), which would count its batches alone: see ResNet::count_batch().
  torch::Tensor operator()(const torch::Tensor& x) {
    const auto& options = conv->options;
    const torch::Tensor y =
        convolve(x, conv->weight, options.stride()->front(),
                 std::get<torch::ExpandingArray<2>>(options.padding())->front());
    return torch::batch_norm(y, norm->weight, norm->bias, norm->running_mean, norm->running_var,
                             norm->is_training(), *norm->options.momentum(), norm->options.eps(),
                             at::globalContext().userEnabledCuDNN());
  }
};

// Two 3x3 convolutions, or a 3x3 between two 1x1 (the bottleneck), beside a shortcut. The stride is
// in the first 3x3, which torchvision calls version 1.5.
class Block final : public torch::nn::Module {
 public:
  Block(const Form& form, int64_t in, int64_t width, int64_t stride) {
    const int64_t out = width * form.expansion();
    // First, as in torchvision: the order in which weights are drawn.
    if (stride != 1 || in != out) shortcut_.emplace(in, out, 1, stride);
    if (form.is_bottleneck) {
      layers_.emplace_back(in, width, 1, 1);
      layers_.emplace_back(width, width, 3, stride);
      layers_.emplace_back(width, out, 1, 1);
    } else {
      layers_.emplace_back(in, width, 3, stride);
      layers_.emplace_back(width, out, 3, 1);
    }
    for (size_t i = 0; i < layers_.size(); ++i) {
      register_module(fmt::format("conv{}", i + 1), layers_[i].conv);
      register_module(fmt::format("bn{}", i + 1), layers_[i].norm);
    }
    if (shortcut_) {
      register_module("downsample", torch::nn::Sequential(shortcut_->conv, shortcut_->norm));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = x;
    for (size_t i = 0; i + 1 < layers_.size(); ++i) y = layers_[i](y).relu_();
    y = layers_.back()(y);
    y += shortcut_ ? (*shortcut_)(x) : x;
    return y.relu_();
  }

  torch::nn::BatchNorm2d& last_norm() { return layers_.back().norm; }

 private:
  std::vector<Layer> layers_;
  std::optional<Layer> shortcut_;
};

class ResNet final : public Network {
 public:
  ResNet(const Form& form, const ModelOptions& options, NetworkShape shape)
      : is_small_stem_(options.stem == "small"),
        stem_(shape.channels, kStageWidth[0], is_small_stem_ ? 3 : 7, is_small_stem_ ? 1 : 2) {
    register_module("conv1", stem_.conv);
    register_module("bn1", stem_.norm);
    int64_t channels = kStageWidth[0];
    for (size_t stage = 0; stage < kStageWidth.size(); ++stage) {
      auto blocks = std::make_shared<torch::nn::Module>();
      for (int64_t i = 0; i < form.blocks[stage]; ++i) {
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks_.push_back(std::make_shared<Block>(form, channels, kStageWidth[stage], stride));
        blocks->register_module(std::to_string(i), blocks_.back());
        channels = kStageWidth[stage] * form.expansion();
      }
      register_module(fmt::format("layer{}", stage + 1), blocks);
    }
    fc_ = register_module("fc", torch::nn::Linear(channels, shape.classes));
    draw_weights(options.zero_init);
  }

  torch::Tensor forward(torch::Tensor x) override {
    if (is_training()) {
      check_batch(x);
      count_batch();
    }
    x = stem_(x).relu_();
    if (!is_small_stem_) x = torch::max_pool2d(x, 3, 2, 1);
    for (const auto& block : blocks_) x = block->forward(x);
    return fc_(x.mean({2, 3}));  // adaptive average pooling to 1x1 is just that
  }

  std::string head() const override { return "fc"; }
  bool takes_any_size() const override { return true; }

  // How far an image is scaled down before the last pooling.
  static int64_t reduction(bool is_small_stem) { return is_small_stem ? 8 : 32; }

 private:
  // He's weights, for what goes out of a convolution.
  void draw_weights(bool zero_init) {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* conv = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      } else if (auto* norm = module->as<torch::nn::BatchNorm2d>()) {
        norms_.push_back(norm);
      }
    }
    if (!zero_init) return;
    for (const auto& block : blocks_) torch::nn::init::zeros_(block->last_norm()->weight);
  }

  // The variance of one value would be 0 / 0, and stay in the running one.
  void check_batch(const torch::Tensor& x) const {
    const int64_t side = reduction(is_small_stem_);
    TORCH_CHECK(x.size(0) > 1 || x.size(2) > side || x.size(3) > side,
                "a step on a single image of ", x.size(2), "x", x.size(3),
                " leaves batch norm one value per channel; use larger ", "batches or images",
                is_small_stem_ ? "" : ", or model.stem = \"small\"");
  }

  // num_batches_tracked of all norms at once: one launch on a GPU rather than one for each norm.
  void count_batch() {
    torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> counters;
    counters.reserve(norms_.size());
    for (const auto* norm : norms_) counters.push_back(norm->num_batches_tracked);
    at::_foreach_add_(counters, 1);
  }

  const bool is_small_stem_;
  Layer stem_;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::Linear fc_ = nullptr;
  std::vector<torch::nn::BatchNorm2dImpl*> norms_;  // owned by the modules above
};

}  // namespace

Result<std::shared_ptr<Network>> make_resnet(const ModelOptions& options, NetworkShape shape) {
  const auto form = form_of(options.name);
  TERN_CHECK(form.has_value());
  const bool is_small_stem = options.stem == "small";
  const int64_t least = ResNet::reduction(is_small_stem);
  if (shape.height < least || shape.width < least) {
    return fail(
        Code::invalid,
        fmt::format("model '{}' with stem '{}' needs images of at least {}x{}, the data has "
                    "{}x{}; {}",
                    options.name, options.stem, least, least, shape.height, shape.width,
                    is_small_stem ? "choose another model.name"
                                  : "set model.stem = \"small\", or choose another model.name"));
  }
  return std::make_shared<ResNet>(*form, options, shape);
}

}  // namespace tern
