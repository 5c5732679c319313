// Stage: consecutive layers of a language model, from the embedding over the blocks to the final
// norm with the loss head; the whole model is the stage that has them all. Families differ in their
// blocks alone, so a stage is one class. Between two stages travels one tensor [N, C], the sum of
// the residual stream and the last branch: a norm that adds works on the stored sum too, so a model
// that is cut has the bits of one that is whole.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/families/list.h"
#include "config/families/spec/matched_blocks.h"
#include "kernels/preference/preference.h"
#include "model/functions/functions.h"
#include "model/modules/pipeline_stage.h"
#include "model/parallel/pipeline_cut.h"

namespace ds {

// The residual stream between blocks is sum + branch; the next norm adds them in passing.
struct Residual {
  Var sum;
  Var branch;  // undefined at the start
};

// sum + branch, rounded as the norms that add round it.
Var joined(Context& context, Residual residual);

class Block {
 public:
  // `path`: "transformer.h.3", as parameters of it are called.
  explicit Block(std::string path) : path_(std::move(path)) {}
  virtual ~Block() = default;
  const std::string& path() const { return path_; }
  virtual Residual forward(Context& context, const SequenceRows& rows, Residual in) const = 0;

 private:
  std::string path_;
};

LayerRange all_layers(const ModelConfig& config);

// The losses that a step's loss is the sum of, by the names of their metrics; none if it is one
// alone.
std::vector<std::string_view> loss_parts(const ModelConfig& config);

// Which blocks do without activations until the backward pass (model/activations/recompute.h), and
// in how many tiles all of them have their MLP (model/activations/tiles.h).
struct RecomputedBlocks {
  int64_t mlp_tiles = 1;
  Recompute recompute{};
  int64_t per_segment = 1;  // consecutive blocks that are one segment, where whole blocks are
  std::vector<std::string> patterns{};  // regular expressions in their paths; none: all blocks
  // If there are several segments, the last one of the model keeps what it has. This is for
  // gradients that come as soon as the head is done: to make that again would take time, and save
  // memory only while the head runs alone.
  bool keeps_last = false;
  bool is_timed = false;  // what each segment took is logged, step by step
};

// How a stage computes what its layers say.
struct StageRules {
  RecomputedBlocks recomputed{};
  // Samples are pairs of texts, and losses are by this rule; nothing: losses are of tokens.
  std::optional<kernels::PreferenceRule> preference{};
};

class Stage;

// What a stage learns from another model, of the same tokens. A stage that has all layers does.
struct Teaching {
  std::shared_ptr<const Stage> teacher;  // all layers of it, none of which trains
  kernels::DistillationRule rule{};
  std::vector<MatchedBlocks> blocks{};
  float blocks_weight = 1;  // see hidden_losses()
};

class Stage final : public PipelineStage {
 public:
  struct Embedding {
    EmbeddingSpec spec{};
    float factor = 1;  // what is looked up is multiplied by it
    std::optional<NormSpec> norm{};
    DropoutSpec dropout{};
  };
  struct Head {
    struct Transform {
      LinearSpec linear{};
      kernels::Activation activation = kernels::Activation::kNone;
      std::optional<NormSpec> norm{};
    };
    std::optional<NormSpec> norm{};
    std::optional<LinearSpec> projection{};  // behind the norm
    std::optional<Transform> transform{};    // behind both
    bool pools_mean = false;                 // the mean of a sample's rows stands in its first one
    DropoutSpec before{}, behind{};          // of what the transform reads, and gives
    LogitsSpec logits{};                     // whose weight is the embedding's table when tied
    int64_t classes = 0;                     // that logits are of; 0: of tokens
    ClassifierProblem problem = ClassifierProblem::kOneClass;  // of classes
    float factor = 1;                                          // of logits
  };
  struct Parts {
    ModelConfig config;
    DType dtype = DType::kF32;
    std::optional<Embedding> embedding{};
    std::vector<std::unique_ptr<Block>> blocks{};
    std::optional<Head> head{};
    std::optional<Head> pair_head{};  // beside it
    ParamId shared = kNoParam;        // see Stage::shared()
    int trains_from = 0;              // the first unit of which some trains; with an embedding
  };
  explicit Stage(Parts parts, const StageRules& rules = {});
  // From then on losses() are those of distilled_cross_entropy() and hidden_losses(), in passes
  // that distill.
  void learn_from(Teaching teaching);

  bool is_first() const override { return parts_.embedding.has_value(); }
  bool is_last() const override { return parts_.head.has_value(); }
  DType dtype() const override { return parts_.dtype; }
  Shape shape_in(const SequenceRows& rows) const override {
    return {rows.batch * rows.length, dims_.width};
  }
  Shape shape_out(const SequenceRows& rows) const override { return shape_in(rows); }
  BatchSpec batch_spec(const BatchExtents& extents) const override;
  std::vector<ParamId> shared_params() const override;
  const ModelConfig& config() const { return parts_.config; }
  const Head& head() const;  // of the last stage
  // The table of a tied embedding where first and last stage are two: both have a whole one, start
  // from the same bits and update alike, once their gradients are summed. Otherwise kNoParam.
  ParamId shared() const { return parts_.shared; }

  // The residual stream after the blocks; a cache has the positions from then on.
  Residual run(Context& context, StageInput input) const;
  Var forward(Context& context, StageInput input) const override;
  Tensor losses(Context& context, StageInput input, float grad_scale) const override;
  Tensor next_logits(Context& context, StageInput input) const override;
  // The residual stream behind the last norm and projection, of the last stage.
  Tensor hidden_states(Context& context, StageInput input) const;

 private:
  // Consecutive blocks [begin, end) that run alike.
  struct Segment {
    size_t begin = 0;
    size_t end = 0;
    Recompute recompute{};
  };
  // What the teacher has said of a micro-batch, and what comes of it.
  struct Lesson {
    TaughtLogits logits{};
    std::map<int64_t, Tensor> states{};  // by the own block that they are for
    LossRows rows{};
    float grad_scale = 1;
    Tensor hidden{};  // the sum of hidden_losses()
  };
  // Hears of what comes out of a segment, by the number of its last block, and may change it.
  using BehindSegment = std::function<void(Context& context, int64_t block, Residual& stream)>;
  Residual run_layers(Context& context, StageInput input, const BehindSegment& behind) const;
  Lesson teach(Context& context, const StageInput& input, float grad_scale) const;
  TaughtLogits answer(Context& context, StageInput input, const BehindSegment& behind) const;
  void match(Context& context, int64_t block, Residual& stream, Lesson& lesson) const;
  Tensor losses_of_lesson(Context& context, Var y, Lesson& lesson) const;
  static std::vector<Segment> segments_of(const Parts& parts, const RecomputedBlocks& recomputed);
  Residual run_blocks(Context& context, const Segment& segment, const SequenceRows& rows,
                      Residual in) const;
  Var last_state(Context& context, const Residual& residual) const;
  static Var head_input(Context& context, const Head& head, Var y, const SequenceRows& rows);
  Tensor losses_of_pairs(Context& context, const Var& y, const Tensor& targets,
                         const SequenceRows& rows, float grad_scale) const;
  Tensor logits_of(Context& context, const Head& head, const Tensor& y) const;
  Tensor losses_of_values(Context& context, const Var& y, const Tensor& values,
                          const Tensor& targets, float grad_scale) const;
  Tensor losses_of(Context& context, Var y, const MicroBatch& batch, const SequenceRows& rows,
                   float grad_scale) const;
  Residual run_segment(Context& context, const Segment& segment, const SequenceRows& rows,
                       Residual in) const;

  Parts parts_;
  ModelDimensions dims_;
  std::vector<Segment> segments_;
  int64_t mlp_tiles_;
  std::optional<kernels::PreferenceRule> preference_;
  std::optional<Teaching> teaching_;
};

}  // namespace ds
