#include "model/convolve.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <vector>

namespace tern {
namespace {

// Pixels of the output up to which our products are faster than oneDNN: by a factor of 2 and more
// (up to 7 for the weights' gradient) up to the first, for the weights' gradient alone up to the
// second. Measured with 64 to 512 channels and batches of 4 to 256 on AVX2.
constexpr int64_t kAllMax = 4;
constexpr int64_t kWeightsMax = 16;

// An output pixel, the input pixel that it takes in, and the tap of the kernel between them.
struct Pair {
  int64_t out, in, tap;
};

struct Geometry {
  int64_t height, width, kernel, stride, padding;

  int64_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  int64_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  int64_t out_pixels() const { return out_height() * out_width(); }

  std::vector<Pair> pairs() const {
    std::vector<Pair> found;
    for (int64_t out = 0; out < out_pixels(); ++out) {
      for (int64_t tap = 0; tap < kernel * kernel; ++tap) {
        const int64_t y = out / out_width() * stride + tap / kernel - padding;
        const int64_t x = out % out_width() * stride + tap % kernel - padding;
        if (y < 0 || y >= height || x < 0 || x >= width) continue;
        found.push_back({.out = out, .in = y * width + x, .tap = tap});
      }
    }
    return found;
  }
};

Geometry geometry_of(const torch::Tensor& x, const torch::Tensor& weight, int64_t stride,
                     int64_t padding) {
  return {.height = x.size(2),
          .width = x.size(3),
          .kernel = weight.size(2),
          .stride = stride,
          .padding = padding};
}

// (A, C, H, W) as (A, H * W, C): a view of what lies channels last in memory, of which one pixel is
// a matrix that a BLAS takes as it lies. What does not (a gradient may not) is copied.
torch::Tensor by_pixels(const torch::Tensor& x) {
  return x.permute({0, 2, 3, 1}).contiguous().view({x.size(0), x.size(2) * x.size(3), x.size(1)});
}

// The inverse, channels last in memory.
torch::Tensor as_map(const torch::Tensor& pixels, int64_t height, int64_t width) {
  return pixels.view({pixels.size(0), height, width, pixels.size(2)}).permute({0, 3, 1, 2});
}

torch::Tensor output_of(const torch::Tensor& x, const torch::Tensor& weight,
                        const Geometry& geometry) {
  const auto in = by_pixels(x), taps = by_pixels(weight);
  auto out = torch::zeros({x.size(0), geometry.out_pixels(), weight.size(0)}, x.options());
  for (const Pair& pair : geometry.pairs()) {
    out.select(1, pair.out).addmm_(in.select(1, pair.in), taps.select(1, pair.tap).t());
  }
  return as_map(out, geometry.out_height(), geometry.out_width());
}

torch::Tensor gradient_of_input(const torch::Tensor& gradient, const torch::Tensor& weight,
                                const Geometry& geometry) {
  const auto out = by_pixels(gradient), taps = by_pixels(weight);
  auto in = torch::zeros({gradient.size(0), geometry.height * geometry.width, weight.size(1)},
                         gradient.options());
  for (const Pair& pair : geometry.pairs()) {
    in.select(1, pair.in).addmm_(out.select(1, pair.out), taps.select(1, pair.tap));
  }
  return as_map(in, geometry.height, geometry.width);
}

torch::Tensor gradient_of_weight(const torch::Tensor& gradient, const torch::Tensor& x,
                                 const Geometry& geometry) {
  const auto out = by_pixels(gradient), in = by_pixels(x);
  auto taps = torch::zeros({gradient.size(1), geometry.kernel * geometry.kernel, x.size(1)},
                           gradient.options());
  for (const Pair& pair : geometry.pairs()) {
    taps.select(1, pair.tap).addmm_(out.select(1, pair.out).t(), in.select(1, pair.in));
  }
  return as_map(taps, geometry.kernel, geometry.kernel);
}

class SmallMap final : public torch::autograd::Function<SmallMap> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight, int64_t stride, int64_t padding) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    const Geometry geometry = geometry_of(x, weight, stride, padding);
    if (geometry.out_pixels() > kAllMax) return torch::conv2d(x, weight, {}, stride, padding);
    return output_of(x, weight, geometry);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const torch::Tensor &x = saved[0], &weight = saved[1], &gradient = gradients[0];
    const int64_t stride = context->saved_data["stride"].toInt();
    const int64_t padding = context->saved_data["padding"].toInt();
    const Geometry geometry = geometry_of(x, weight, stride, padding);
    torch::Tensor of_x, of_weight;
    if (context->needs_input_grad(0) && geometry.out_pixels() <= kAllMax) {
      of_x = gradient_of_input(gradient, weight, geometry);
    } else if (context->needs_input_grad(0)) {
      of_x = std::get<0>(at::convolution_backward(gradient, x, weight, /*bias_sizes=*/at::nullopt,
                                                  {stride, stride}, {padding, padding}, {1, 1},
                                                  /*transposed=*/false, {0, 0}, /*groups=*/1,
                                                  {true, false, false}));
    }
    if (context->needs_input_grad(1)) of_weight = gradient_of_weight(gradient, x, geometry);
    return {of_x, of_weight, {}, {}};
  }
};

}  // namespace

torch::Tensor convolve(const torch::Tensor& x, const torch::Tensor& weight, int64_t stride,
                       int64_t padding) {
  constexpr auto kFormat = torch::MemoryFormat::ChannelsLast;
  const auto type = x.scalar_type();
  // In 16 bits oneDNN has kernels of its own, and a GPU has cuDNN.
  const bool is_ours = x.is_cpu() && (type == torch::kFloat || type == torch::kDouble) &&
                       !at::autocast::is_autocast_enabled(at::kCPU) && x.is_contiguous(kFormat) &&
                       weight.is_contiguous(kFormat) &&
                       geometry_of(x, weight, stride, padding).out_pixels() <= kWeightsMax;
  return is_ours ? SmallMap::apply(x, weight, stride, padding)
                 : torch::conv2d(x, weight, {}, stride, padding);
}

}  // namespace tern
