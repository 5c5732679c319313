// Stage: consecutive layers of a language model, from the embedding over the blocks to the final
// norm with the loss head; the whole model is the stage that has them all. Families differ in their
// blocks alone, so a stage is one class. Between two stages travels one tensor [N, C], the sum of
// the residual stream and the last branch: a norm that adds works on the stored sum too, so a model
// that is cut has the bits of one that is whole.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/model_families.h"
#include "model/functions.h"

namespace ds {

// Where the rows of [N, C] values come from: `batch` sequences of which `length` positions are
// here, sequence b in the rows from b * length on.
struct SequenceRows {
  int64_t batch = 0;
  int64_t length = 0;
  Positions positions{};
};

// The residual stream between blocks is sum + branch; the next norm adds them in passing.
struct Residual {
  Var sum;
  Var branch;  // undefined at the start
};

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

// Layers [begin, end) of a model of L blocks: layer 0 is the embedding, 1 .. L are the blocks,
// L + 1 is the final norm with the head.
struct LayerRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool has(int64_t layer) const { return begin <= layer && layer < end; }
};
LayerRange all_layers(const ModelConfig& config);

// Which blocks do without activations until the backward pass (model/activations/recompute.h), and
// in how many tiles all of them have their MLP (model/activations/tiles.h).
struct RecomputedBlocks {
  int64_t mlp_tiles = 1;
  Recompute recompute{};
  int64_t per_segment = 1;  // consecutive blocks that are one segment, where whole blocks are
  std::vector<std::string> patterns{};  // regular expressions in their paths; none: all blocks
};

struct StageInput {
  Tensor tokens{};  // int32 [batch * length]; of the first stage only
  Tensor order{};   // of the first stage, with a tape: kernels::sort_tokens() of the tokens
  Var boundary{};   // [N, C]; of the others: what the stage before returned
  SequenceRows rows{};
};

class Stage {
 public:
  struct Embedding {
    EmbeddingSpec spec{};
    DropoutSpec dropout{};
  };
  struct Head {
    NormSpec norm{};
    ParamId weight = kNoParam;  // [V, C]; the embedding's table when tied
  };
  struct Parts {
    ModelConfig config;
    DType dtype = DType::kF32;
    std::optional<Embedding> embedding{};
    std::vector<std::unique_ptr<Block>> blocks{};
    std::optional<Head> head{};
    ParamId shared = kNoParam;  // see Stage::shared()
  };
  explicit Stage(Parts parts, const RecomputedBlocks& recomputed = {});

  bool is_first() const { return parts_.embedding.has_value(); }
  bool is_last() const { return parts_.head.has_value(); }
  const ModelConfig& config() const { return parts_.config; }
  DType dtype() const { return parts_.dtype; }  // of weights and activations
  int64_t width() const { return dims_.width; }
  const Head& head() const;  // of the last stage
  // The table of a tied embedding where first and last stage are two: both have a whole one, start
  // from the same bits and update alike, once their gradients are summed. Otherwise kNoParam.
  ParamId shared() const { return parts_.shared; }

  // The residual stream after the blocks.
  Residual run(Context& context, StageInput input) const;
  // What the next stage starts from. Not on the last stage.
  Var forward(Context& context, StageInput input) const;
  // The last stage's losses; see LanguageModel::loss. targets: int32 [N].
  Tensor losses(Context& context, StageInput input, const Tensor& targets, float grad_scale) const;

 private:
  // Consecutive blocks [begin, end) that run alike.
  struct Segment {
    size_t begin = 0;
    size_t end = 0;
    Recompute recompute{};
  };
  static std::vector<Segment> segments_of(const Parts& parts, const RecomputedBlocks& recomputed);
  Residual run_blocks(Context& context, const Segment& segment, const SequenceRows& rows,
                      Residual in) const;
  Residual run_segment(Context& context, const Segment& segment, const SequenceRows& rows,
                       Residual in) const;

  Parts parts_;
  ModelDimensions dims_;
  std::vector<Segment> segments_;
  int64_t mlp_tiles_;
};

}  // namespace ds
