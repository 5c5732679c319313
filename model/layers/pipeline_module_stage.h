// LayerStage: some layers of a PipelineModule as a stage of a pipeline. Private to model/layers.
#pragma once

#include <memory>
#include <vector>

#include "model/layers/pipeline_parts.h"
#include "model/modules/pipeline_stage.h"

namespace ds::detail {

class LayerStage final : public PipelineStage {
 public:
  struct Parts {
    const PipelineModuleParts* module = nullptr;  // outlives the stage
    std::vector<std::unique_ptr<PipelineLayer>> layers{};
    std::unique_ptr<PipelineLoss> loss{};  // of a last stage
    bool is_first = false;
    Shape in{}, out{};  // of one sample
    std::vector<ParamId> shared{};
  };
  explicit LayerStage(Parts parts) : parts_(std::move(parts)) {}

  bool is_first() const override { return parts_.is_first; }
  bool is_last() const override { return parts_.loss != nullptr; }
  DType dtype() const override { return parts_.module->dtype; }
  Shape shape_in(const SequenceRows& rows) const override;
  Shape shape_out(const SequenceRows& rows) const override;
  BatchSpec batch_spec(const BatchExtents& extents) const override;
  std::vector<ParamId> shared_params() const override { return parts_.shared; }
  Var forward(Context& context, StageInput input) const override;
  Tensor losses(Context& context, StageInput input, float grad_scale) const override;
  Tensor next_logits(Context& context, StageInput input) const override;

 private:
  LayerInput entry(Context& context, StageInput input) const;
  Var run(Context& context, LayerInput in) const;
  Var run_layers(Context& context, size_t begin, size_t end, LayerInput in) const;

  const Parts parts_;
};

// `shape` is of one sample.
Shape of_samples(const Shape& shape, int64_t samples);

}  // namespace ds::detail
