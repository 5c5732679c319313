// What the engine runs of a model: consecutive layers, which take samples or what the layers before
// gave, and give that on or losses. A language model's are a Stage (model/modules/stage.h), those
// of a list of layers a LayerStage.
#pragma once

#include <vector>

#include "model/pass/context.h"

namespace ds {

struct StageInput {
  MicroBatch batch{};  // what batch_spec() names
  Var boundary{};      // of all stages but the first: what the stage before returned
  SequenceRows rows{};
};

class PipelineStage {
 public:
  virtual ~PipelineStage() = default;
  virtual bool is_first() const = 0;
  virtual bool is_last() const = 0;
  virtual DType dtype() const = 0;  // of weights and of what goes from stage to stage
  // What it reads of such a micro-batch; nothing if it goes by what the stage before gave alone.
  virtual BatchSpec batch_spec(const BatchExtents& extents) const = 0;
  // What it starts from, if it is not the first, and what it gives, if it is not the last.
  virtual Shape shape_in(const SequenceRows& rows) const = 0;
  virtual Shape shape_out(const SequenceRows& rows) const = 0;
  // Parameters that the first stage and the last one both have whole: they start from the same bits
  // and update alike, once their gradients are summed. In the same order on both.
  virtual std::vector<ParamId> shared_params() const = 0;

  // What the next stage starts from. Not on the last stage.
  virtual Var forward(Context& context, StageInput input) const = 0;
  // The last stage's, fp32, of the batch's targets; see LanguageModel::loss.
  virtual Tensor losses(Context& context, StageInput input, float grad_scale) const = 0;
  // The last stage's scores of what comes after the last token: see LanguageModel::next_logits,
  // here with the batch that input.rows says. Unsupported if the layers know no tokens.
  virtual Tensor next_logits(Context& context, StageInput input) const = 0;
};

}  // namespace ds
