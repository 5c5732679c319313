// What a PipelineModule is made of (pipeline_module.h): descriptions of layers and of the loss, and
// of samples.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/modules/module.h"

namespace ds {

// A micro-batch: all values are tensors whose first extent is rows, those of a sample together.
struct LayerInput {
  Var value;       // what the layer before gave; of the first layer the samples, a constant
  Tensor order{};  // of the first layer, where samples are tokens: what embed() wants
  int64_t samples = 0;
};

class PipelineLayer {
 public:
  virtual ~PipelineLayer() = default;
  // The functions of model/functions/functions.h, or own ones (Context::record). Runs on meta, too,
  // so shapes must not depend on values. The result has the module's dtype, and rows in proportion
  // to the samples.
  virtual Var forward(Context& context, const LayerInput& in) const = 0;
};

class PipelineLoss {
 public:
  virtual ~PipelineLoss() = default;
  // Losses, fp32 [samples * losses_per_sample], of which the mean is trained on. labels [samples *
  // r, ...]. With a tape, records what starts the backward pass of sum(losses) * grad_scale and of
  // PassSettings::loss_scale, as linear_cross_entropy() does.
  virtual Tensor losses(Context& context, const LayerInput& in, const Tensor& labels,
                        float grad_scale) const = 0;
};

// How something is made where it is needed: parameters are added to `build`, nothing is allocated.
// Called more than once.
template <class Built>
struct SpecOf {
  std::string type;  // class name, which the partition method type:PATTERN looks at
  std::function<std::unique_ptr<Built>(const BuildContext& build)> build;
  std::string key = "";  // see tied()
};
using LayerSpec = SpecOf<PipelineLayer>;
using LossSpec = SpecOf<PipelineLoss>;

// DeepSpeed's TiedLayerSpec. Parameters that several layers of one key add by the same name are
// one: in a stage it has several uses, and between the first stage and the last its gradients are
// summed.
template <class Built>
SpecOf<Built> tied(std::string_view key, SpecOf<Built> spec) {
  spec.key = key;
  return spec;
}

// This describes one sample: fp32, or int32 (tokens, labels). A BatchSource fills the field
// "inputs" or "labels" with those of a micro-batch (model/pass/batch.h), in the samples' shape but
// for the first extent. Inputs in fp32 are rounded to the module's dtype.
struct SampleSpec {
  Shape shape;  // rows first: {1, 784} for a vector, {128} for a text of tokens
  DType dtype = DType::kF32;
};

struct PipelineModuleParts {
  SampleSpec input, label;
  std::vector<LayerSpec> layers;
  LossSpec loss;
  int64_t losses_per_sample = 1;
  DType dtype = DType::kF32;  // of weights and values: fp32, bf16 or fp16
  // So many layers are run again in the backward pass from what they started from, and so on; 0:
  // everything is kept. Losses are never run again.
  int64_t activation_checkpoint_interval = 0;
};

}  // namespace ds
