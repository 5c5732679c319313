// Costs of layer chains: shapes passed on and sums.
#include "model/layer_cost.h"

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ds;
using Sizes = std::vector<int64_t>;

TEST_CASE("a small network's work and parameters add up along the chain", "[model]") {
  const kernels::ConvShape conv{
      .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .in = 3, .out = 4};
  const kernels::ConvShape pool{
      .kernel = {2, 2}, .stride = {2, 2}, .padding = {0, 0}, .dilation = {1, 1}};
  const std::vector<LayerSpec> layers{
      ConvLayer{conv, kernels::Bias::kNo}, BatchNormLayer{4}, ElementwiseLayer{1}, PoolLayer{pool},
      AdaptivePoolLayer{{1, 1}},           FlattenLayer{},    LinearLayer{4, 10}};
  const LayerCost cost = chain_cost(layers, Sizes{2, 3, 8, 8});
  CHECK(cost.output == Sizes{2, 10});
  CHECK(cost.parameters == 108 + 8 + 50);
  CHECK(cost.work.macs == 2 * 64 * 108 + 80);
  CHECK(cost.work.flops == 2 * cost.work.macs + 512 * 2 + 512 + 512 + 128);
}

TEST_CASE("layers change shapes as they say", "[model]") {
  const auto output = [](const LayerSpec& layer, const Sizes& input) {
    return layer_cost(layer, input).output;
  };
  CHECK(output(EmbeddingLayer{100, 8}, {2, 5}) == Sizes{2, 5, 8});
  CHECK(output(RecurrentLayer{{kernels::Recurrent::kGru, 8, 6, 1, kernels::Bias::kYes, 2}},
               {2, 5, 8}) == Sizes{2, 5, 12});
  CHECK(output(UpsampleLayer{{}, {2}}, {1, 3, 4, 5}) == Sizes{1, 3, 8, 10});
  CHECK(output(UpsampleLayer{{7}, {}}, {1, 3, 4, 5}) == Sizes{1, 3, 7, 7});
  CHECK(output(NormLayer{8}, {2, 8}) == Sizes{2, 8});
  const kernels::ConvShape up{{2}, {2}, {0}, {1}, 3, 4};
  CHECK(output(TransposedConvLayer{up}, {1, 3, 5}) == Sizes{1, 4, 10});
}

TEST_CASE("inputs that do not fit are refused", "[model]") {
  CHECK_THROWS_AS(layer_cost(LinearLayer{4, 2}, Sizes{2, 3}), ConfigError);
  CHECK_THROWS_AS(layer_cost(RecurrentLayer{}, Sizes{2, 3}), ConfigError);
  CHECK_THROWS_AS(layer_cost(UpsampleLayer{}, Sizes{1, 1, 2}), ConfigError);
}
