// PipelineModule: a model of your own as a list of layers, which the engine trains on one rank or
// cuts into the stages of a pipeline (EngineOptions::module). The names are DeepSpeed's: a layer is
// described by a LayerSpec and built only by the rank that has it; layers tied() by a key have the
// parameters of equal names in common; the loss follows the last layer.
//
//   PipelineModule net({.input = {.shape = {1, 32}},
//                       .label = {.shape = {1}, .dtype = DType::kI32},
//                       .layers = {{"Linear", build_linear}, {"Mlp", build_mlp}},
//                       .loss = {"Classes", build_classes}});
//
// Weights follow from the seed and a parameter's name alone ("layers.3.weight"; of a key
// "tied.KEY.weight"), so stages start from the bits of the whole model, whatever the cut.
// It refuses tensor and sequence parallelism, which need to know what layers do.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/modules/module.h"
#include "model/modules/pipeline_stage.h"
#include "model/parallel/pipeline_cut.h"

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

class PipelineModule {
 public:
  // Builds everything once without memory. ConfigError where there are no layers, samples of other
  // dtypes, or a layer that gives another dtype or no rows for each sample, and what layers throw.
  explicit PipelineModule(PipelineModuleParts parts);

  const PipelineModuleParts& parts() const { return parts_; }
  int64_t layer_count() const { return std::ssize(parts_.layers); }

  // In `parts` of consecutive layers, by a method of cut_layers() or "best", which is parameters
  // here; the loss is with the last layer. ConfigError where a part would have no layer, and where
  // parts share parameters other than the first and the last.
  std::vector<LayerRange> cut(std::string_view method, int parts) const;
  // The layers, and only their parameters; unit i: layer i, of tied parameters the first that has
  // them. The module must outlive the stage.
  std::unique_ptr<PipelineStage> make_stage(ParameterStore& store, LayerRange layers) const;
  // Parameters of the whole model, in their order.
  std::vector<ParamSpec> specs() const { return specs_; }
  // Whether layers in the range and others have a parameter in common.
  bool shares_beyond(LayerRange layers) const { return !names_beyond(layers).empty(); }

 private:
  std::vector<CutLayer> cut_layers_of() const;
  std::set<std::string> names_beyond(LayerRange layers) const;
  void look_through();

  PipelineModuleParts parts_;
  std::vector<Shape> shapes_;                 // of one sample, in front of each layer
  std::vector<std::set<std::string>> names_;  // of parameters, by layer; the last has the loss's
  std::vector<ParamSpec> specs_;
};

}  // namespace ds
