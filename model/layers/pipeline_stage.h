// What the engine runs of a model: consecutive layers, which take samples or what the layers before
// gave, and give that on or losses. A language model's are a Stage (model/stage.h), those of a list
// of layers a LayerStage.
#pragma once

#include <vector>

#include "model/context.h"
#include "model/parallel/sequence_rows.h"

namespace ds {

// This says where the rows of [N, C] values come from: `batch` sequences of which `length`
// positions are here, sequence b in the rows from b * length on.
struct SequenceRows {
  int64_t batch = 0;
  int64_t length = 0;
  Positions positions{};
};

struct StageInput {
  Tensor tokens{};  // int32 [batch * length]; of the first stage only
  Tensor order{};   // of a first stage that sorts, with a tape: kernels::sort_tokens() of them
  Var boundary{};   // of the others: what the stage before returned
  SequenceRows rows{};
};

class PipelineStage {
 public:
  virtual ~PipelineStage() = default;
  virtual bool is_first() const = 0;
  virtual bool is_last() const = 0;
  virtual bool sorts_tokens() const = 0;  // of the first: whether it wants StageInput::order
  virtual DType dtype() const = 0;        // of weights and of what goes from stage to stage
  // What it starts from, if it is not the first, and what it gives, if it is not the last.
  virtual Shape shape_in(const SequenceRows& rows) const = 0;
  virtual Shape shape_out(const SequenceRows& rows) const = 0;
  // Parameters that the first stage and the last one both have whole: they start from the same bits
  // and update alike, once their gradients are summed. In the same order on both.
  virtual std::vector<ParamId> shared_params() const = 0;

  // What the next stage starts from. Not on the last stage.
  virtual Var forward(Context& context, StageInput input) const = 0;
  // The last stage's, fp32; see LanguageModel::loss. targets: int32, as many as tokens.
  virtual Tensor losses(Context& context, StageInput input, const Tensor& targets,
                        float grad_scale) const = 0;
};

}  // namespace ds
