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

#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "model/layers/pipeline_parts.h"
#include "model/modules/pipeline_stage.h"
#include "model/parallel/pipeline_cut.h"

namespace ds {

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
