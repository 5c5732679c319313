// What standard layers cost from their parameters alone (pure): work of one evaluation-mode forward
// pass, number of parameters, and the shape they pass on; for estimates before a model is built.
// Formulas are shape_work. Batch comes first in every shape.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "tests/conform/shape_work.h"

namespace ds {

enum class Affine { kNo, kYes };

struct LinearLayer {
  int64_t in = 1, out = 1;
  kernels::Bias bias = kernels::Bias::kYes;
};
struct ConvLayer {
  kernels::ConvShape shape;
  kernels::Bias bias = kernels::Bias::kYes;
};
struct TransposedConvLayer {
  kernels::ConvShape shape;
  std::vector<int64_t> output_padding = {};
  kernels::Bias bias = kernels::Bias::kYes;
};
// BatchNorm (2 flops per element, 1 without affine), and Layer-, Group-, InstanceNorm (5 and 4).
struct BatchNormLayer {
  int64_t features = 1;
  Affine affine = Affine::kYes;
};
struct NormLayer {
  int64_t features = 1;  // numbers of one affine vector
  Affine affine = Affine::kYes;
};
// Activations and softmax: shape kept; Tanh, Sigmoid, ReLU6 and Dropout count nothing.
struct ElementwiseLayer {
  int64_t flops_per_element = 0;
  int64_t parameters = 0;
};
struct PoolLayer {
  kernels::ConvShape window;  // kernel, stride, padding, dilation; channels are the input's
};
struct AdaptivePoolLayer {
  std::vector<int64_t> out;
};
struct UpsampleLayer {
  std::vector<int64_t> size = {};
  std::vector<double> scale = {};  // one number, or one per axis
};
struct FlattenLayer {};  // all but the batch
struct EmbeddingLayer {
  int64_t entries = 1, width = 1;
};
struct RecurrentLayer {
  kernels::RecurrentShape shape;
};

using LayerSpec = std::variant<LinearLayer, ConvLayer, TransposedConvLayer, BatchNormLayer,
                               NormLayer, ElementwiseLayer, PoolLayer, AdaptivePoolLayer,
                               UpsampleLayer, FlattenLayer, EmbeddingLayer, RecurrentLayer>;

struct LayerCost {
  kernels::Work work;
  int64_t parameters = 0;
  std::vector<int64_t> output;  // shape passed on
};

// Throws ConfigError when the layer does not accept the shape.
LayerCost layer_cost(const LayerSpec& layer, kernels::Dims input);
// A chain of layers: work and parameters summed, the last output.
LayerCost chain_cost(std::span<const LayerSpec> layers, kernels::Dims input);

}  // namespace ds
