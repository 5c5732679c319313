// Costs of layer chains: shapes passed on and sums.
#include "model/layer_cost.h"

#include <tuple>

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

TEST_CASE("every layer refuses an input with too few axes or the wrong features, by name",
          "[model]") {
  using kernels::Bias;
  const kernels::ConvShape conv{{3, 3}, {1, 1}, {0, 0}, {1, 1}, 3, 4};
  const std::vector<std::tuple<LayerSpec, Sizes, const char*>> cases{
      {LinearLayer{4, 2}, {2, 3}, "Linear: input ends with 3 features, expected 4"},
      {LinearLayer{4, 2}, {}, "Linear: input has 0 axes, expected at least 1"},
      {ConvLayer{conv}, {2}, "Conv: input has 1 axes, expected at least 2"},
      {ConvLayer{conv}, {2, 5, 8, 8}, "5 input channels given, 3 to 4 channels in 1 groups"},
      {TransposedConvLayer{conv},
       {2, 3, 8},
       "ConvTranspose: input has 3 axes, expected at least 4"},
      {PoolLayer{conv}, {2, 3, 8}, "Pool: input has 3 axes, expected at least 4"},
      {PoolLayer{conv}, {2, 3, 2, 2}, "a kernel of reach 3 and stride 1 does not fit 2"},
      {AdaptivePoolLayer{{1, 1}}, {2, 3, 8}, "AdaptivePool: input has 3 axes"},
      {UpsampleLayer{{7}, {}}, {2, 3}, "Upsample: input has 2 axes"},
      {UpsampleLayer{}, {2, 3, 4}, "neither size nor scale is given"},
      {FlattenLayer{}, {}, "Flatten: input has 0 axes"},
      {RecurrentLayer{{.in = 8}}, {2, 5, 7}, "RNN: input ends with 7 features, expected 8"},
      {RecurrentLayer{{.in = 8}}, {2, 8}, "RNN: input has 2 axes, expected at least 3"}};
  for (const auto& [layer, input, message] : cases) {
    CAPTURE(message);
    CHECK_THROWS_AS(layer_cost(layer, input), ConfigError);
    CHECK_THROWS_WITH(layer_cost(layer, input), Catch::Contains(message));
  }
}

TEST_CASE("numbers per axis that are missing are refused, not read", "[model]") {
  const kernels::ConvShape short_stride{{3, 3}, {1}, {0, 0}, {1, 1}, 3, 4};
  const Sizes input{2, 3, 8, 8};
  CHECK_THROWS_WITH(layer_cost(PoolLayer{short_stride}, input),
                    "Pool: a kernel of 2 axes with 1 strides, 2 paddings and 2 dilations");
  CHECK_THROWS_WITH(layer_cost(TransposedConvLayer{short_stride}, input),
                    "ConvTranspose: a kernel of 2 axes with 1 strides, 2 paddings and 2 dilations");
  CHECK_THROWS_AS(layer_cost(ConvLayer{short_stride}, input), Error);
  CHECK_THROWS_WITH(layer_cost(UpsampleLayer{{4, 4}, {}}, Sizes{1, 1, 2, 2, 2}),
                    "Upsample: 2 sizes or scales for 3 spatial axes");
  CHECK_THROWS_AS(layer_cost(UpsampleLayer{{}, {2, 2}}, Sizes{1, 1, 2, 2, 2}), ConfigError);
}

TEST_CASE("an empty chain costs nothing and passes its input on", "[model]") {
  const LayerCost cost = chain_cost({}, Sizes{2, 3});
  CHECK(cost.output == Sizes{2, 3});
  CHECK(cost.parameters == 0);
  CHECK(cost.work == kernels::Work{});
}

TEST_CASE("layers without affine vectors have no parameters and one operation less", "[model]") {
  const Sizes input{4, 6};
  const LayerCost with = layer_cost(NormLayer{6}, input);
  const LayerCost without = layer_cost(NormLayer{6, Affine::kNo}, input);
  CHECK(with.parameters == 12);
  CHECK(without.parameters == 0);
  CHECK(with.work.flops - without.work.flops == 24);
  CHECK(layer_cost(BatchNormLayer{6, Affine::kNo}, input).parameters == 0);
  CHECK(layer_cost(BatchNormLayer{6, Affine::kNo}, input).work.flops == 24);
  CHECK(layer_cost(LinearLayer{6, 5, kernels::Bias::kNo}, input).parameters == 30);
  CHECK(layer_cost(ElementwiseLayer{3, 7}, input).parameters == 7);
  CHECK(layer_cost(EmbeddingLayer{10, 4}, Sizes{2}).parameters == 40);
}
