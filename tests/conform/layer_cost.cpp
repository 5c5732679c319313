// Costs of standard layers.
#include "tests/conform/layer_cost.h"

#include <cmath>

#include "core/status/error.h"

namespace ds {
namespace {

using kernels::Bias;
using kernels::Dims;
using Sizes = std::vector<int64_t>;

Sizes copy(Dims x) { return {x.begin(), x.end()}; }

// Batch and channels of the input with new spatial sizes.
Sizes with_spatial(int64_t batch, int64_t channels, const Sizes& spatial) {
  Sizes out{batch, channels};
  out.insert(out.end(), spatial.begin(), spatial.end());
  return out;
}

void need_axes(const char* layer, Dims x, size_t axes) {
  if (x.size() < axes) {
    throw ConfigError(
        fmt::format("{}: input has {} axes, expected at least {}", layer, x.size(), axes));
  }
}

void need_last(const char* layer, Dims x, int64_t size) {
  need_axes(layer, x, 1);
  if (x.back() != size) {
    throw ConfigError(
        fmt::format("{}: input ends with {} features, expected {}", layer, x.back(), size));
  }
}

// The formulas read stride, padding and dilation wherever the kernel has an axis.
void need_one_per_axis(const char* layer, const kernels::ConvShape& shape) {
  const size_t axes = shape.kernel.size();
  if (shape.stride.size() != axes || shape.padding.size() != axes ||
      shape.dilation.size() != axes) {
    throw ConfigError(
        fmt::format("{}: a kernel of {} axes with {} strides, {} paddings and {} dilations", layer,
                    axes, shape.stride.size(), shape.padding.size(), shape.dilation.size()));
  }
}

int64_t conv_parameters(const kernels::ConvShape& shape, Bias bias) {
  return shape.out * (shape.in / shape.groups) * kernels::numel(shape.kernel) +
         (bias == Bias::kYes ? shape.out : 0);
}

LayerCost cost(const LinearLayer& layer, Dims x) {
  need_last("Linear", x, layer.in);
  Sizes out = copy(x);
  out.back() = layer.out;
  return {kernels::linear_work(x, layer.out),
          layer.in * layer.out + (layer.bias == Bias::kYes ? layer.out : 0), out};
}

LayerCost cost(const ConvLayer& layer, Dims x) {
  need_axes("Conv", x, 2);
  return {kernels::conv_work(x, layer.shape, layer.bias), conv_parameters(layer.shape, layer.bias),
          with_spatial(x[0], layer.shape.out, kernels::conv_output(x.subspan(2), layer.shape))};
}

LayerCost cost(const TransposedConvLayer& layer, Dims x) {
  need_axes("ConvTranspose", x, 2);
  need_one_per_axis("ConvTranspose", layer.shape);
  need_axes("ConvTranspose", x, layer.shape.kernel.size() + 2);
  const Sizes spatial = kernels::transposed_output(x.subspan(2), layer.shape, layer.output_padding);
  return {kernels::transposed_conv_work(x, layer.shape, layer.bias),
          conv_parameters(layer.shape, layer.bias), with_spatial(x[0], layer.shape.out, spatial)};
}

LayerCost cost(const BatchNormLayer& layer, Dims x) {
  const bool affine = layer.affine == Affine::kYes;
  return {kernels::per_element_work(x, affine ? 2 : 1), affine ? 2 * layer.features : 0, copy(x)};
}

LayerCost cost(const NormLayer& layer, Dims x) {
  const bool affine = layer.affine == Affine::kYes;
  return {kernels::per_element_work(x, affine ? 5 : 4), affine ? 2 * layer.features : 0, copy(x)};
}

LayerCost cost(const ElementwiseLayer& layer, Dims x) {
  return {kernels::per_element_work(x, layer.flops_per_element), layer.parameters, copy(x)};
}

LayerCost cost(const PoolLayer& layer, Dims x) {
  need_one_per_axis("Pool", layer.window);
  need_axes("Pool", x, layer.window.kernel.size() + 2);
  return {kernels::per_element_work(x, 1), 0,
          with_spatial(x[0], x[1], kernels::conv_output(x.subspan(2), layer.window))};
}

LayerCost cost(const AdaptivePoolLayer& layer, Dims x) {
  need_axes("AdaptivePool", x, layer.out.size() + 2);
  return {kernels::per_element_work(x, 1), 0, with_spatial(x[0], x[1], layer.out)};
}

LayerCost cost(const UpsampleLayer& layer, Dims x) {
  need_axes("Upsample", x, 3);
  Sizes spatial = copy(x.subspan(2));
  for (const size_t given : {layer.size.size(), layer.scale.size()}) {
    if (given > 1 && given != spatial.size()) {
      throw ConfigError(
          fmt::format("Upsample: {} sizes or scales for {} spatial axes", given, spatial.size()));
    }
  }
  for (size_t i = 0; i < spatial.size(); ++i) {
    if (!layer.size.empty()) {
      spatial[i] = layer.size[layer.size.size() == 1 ? 0 : i];
    } else if (!layer.scale.empty()) {
      const double scale = layer.scale[layer.scale.size() == 1 ? 0 : i];
      spatial[i] = static_cast<int64_t>(std::floor(static_cast<double>(spatial[i]) * scale));
    }
  }
  return {kernels::interpolate_work(x, layer.size, layer.scale), 0,
          with_spatial(x[0], x[1], spatial)};
}

LayerCost cost(const FlattenLayer&, Dims x) {
  need_axes("Flatten", x, 1);
  return {{}, 0, {x[0], kernels::numel(x.subspan(1))}};
}

LayerCost cost(const EmbeddingLayer& layer, Dims x) {
  Sizes out = copy(x);
  out.push_back(layer.width);
  return {{}, layer.entries * layer.width, out};
}

LayerCost cost(const RecurrentLayer& layer, Dims x) {
  need_axes("RNN", x, 3);
  need_last("RNN", x, layer.shape.in);
  return {kernels::recurrent_work(x[0] * x[1], layer.shape),
          kernels::recurrent_parameters(layer.shape),
          {x[0], x[1], layer.shape.hidden * layer.shape.directions}};
}

}  // namespace

LayerCost layer_cost(const LayerSpec& layer, kernels::Dims input) {
  return std::visit([input](const auto& chosen) { return cost(chosen, input); }, layer);
}

LayerCost chain_cost(std::span<const LayerSpec> layers, kernels::Dims input) {
  LayerCost sum{{}, 0, copy(input)};
  for (const LayerSpec& layer : layers) {
    LayerCost next = layer_cost(layer, sum.output);
    sum.work += next.work;
    sum.parameters += next.parameters;
    sum.output = std::move(next.output);
  }
  return sum;
}

}  // namespace ds
