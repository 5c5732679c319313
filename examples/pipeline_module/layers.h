// The layers of the example: what a model of your own brings along.
#pragma once

#include "model/layers/pipeline_module.h"

namespace ds::example {

// y = x W + b. Parameters "weight" and "bias" under the layer's name.
class Linear final : public PipelineLayer {
 public:
  Linear(const BuildContext& build, int64_t in, int64_t out)
      : spec_(linear_layer(build, in, out, WeightLayout::kInOut, Bias::kZeros, 0.2)) {}

  Var forward(Context& context, const LayerInput& in) const override {
    return linear(context, in.value, spec_);
  }

 private:
  const LinearSpec spec_;
};

// y = gelu(x W1 + b1) W2 + b2.
class Mlp final : public PipelineLayer {
 public:
  Mlp(const BuildContext& build, int64_t width, int64_t inner)
      : spec_({.up = linear_layer(build.child("up"), width, inner, WeightLayout::kInOut,
                                  Bias::kZeros, 0.2),
               .down = linear_layer(build.child("down"), inner, width, WeightLayout::kInOut,
                                    Bias::kZeros, 0.2),
               .activation = kernels::Activation::kGeluTanh}) {}

  Var forward(Context& context, const LayerInput& in) const override {
    return mlp(context, in.value, spec_);
  }

 private:
  const MlpSpec spec_;
};

class LayerNorm final : public PipelineLayer {
 public:
  LayerNorm(const BuildContext& build, int64_t width)
      : spec_(layer_norm_params(build, width, 1e-5)) {}

  Var forward(Context& context, const LayerInput& in) const override {
    return norm(context, in.value, {}, spec_).y;
  }

 private:
  const NormSpec spec_;
};

// -log softmax(x W^T)[label]: one loss per sample.
class Classes final : public PipelineLoss {
 public:
  Classes(const BuildContext& build, int64_t width, int64_t classes)
      : weight_(build.param("weight", {classes, width}, normal(0.2), ModuleKind::kLinear)) {}

  Tensor losses(Context& context, const LayerInput& in, const Tensor& labels,
                float grad_scale) const override {
    return linear_cross_entropy(context, in.value, {.weight = weight_}, labels, grad_scale);
  }

 private:
  const ParamId weight_;
};

// Describes a layer that is made of `sizes`, where and when it is needed.
template <class Built, class Base, class... Sizes>
SpecOf<Base> described(std::string type, Sizes... sizes) {
  return {std::move(type), [sizes...](const BuildContext& build) -> std::unique_ptr<Base> {
            return std::make_unique<Built>(build, sizes...);
          }};
}

}  // namespace ds::example
