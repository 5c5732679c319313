// Differentiable functions: a kernel, what it keeps, and the closure that undoes it. They lease
// weights from the context's store around each use and write parameter gradients straight into the
// store's slots. Values are [N, C] with N = batch * length rows. Without a tape they only compute.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/preference/preference.h"
#include "kernels/rotary/rope.h"
#include "kernels/softmax/softmax.h"
#include "kernels/value_loss/value_loss.h"
#include "model/functions/row_dropout.h"
#include "model/pass/context.h"

namespace ds {

// ---- linear (functions_linear.cpp)

enum class WeightLayout : uint8_t {
  kOutIn,  // nn.Linear: y = x * W^T
  kInOut,  // GPT-2's Conv1D: y = x * W
};
// What is added to the output of a part: scale * x * A^T * B^T, A [rank, in] and B [out, rank]
// (LoRA; Hu et al., arXiv 2106.09685).
struct Adapter {
  ParamId a = kNoParam;  // of projections that a folder joins, one and the same
  ParamId b = kNoParam;
  ParamId magnitude = kNoParam;  // [out]: see model/functions/magnitudes.h; or none
  int64_t rank = 0;
  float scale = 1;
  DropoutSpec dropout{};  // of what it reads of x
};
struct LinearPart {
  ParamId weight = kNoParam;
  ParamId bias = kNoParam;  // or none
  int64_t out = 0;
  std::optional<Adapter> adapter = {};
};
// Several weights of one input (q, k and v; gate and up) fill neighbouring columns of one output.
struct LinearSpec {
  std::vector<LinearPart> parts;
  int64_t in = 0;
  WeightLayout layout = WeightLayout::kOutIn;
  // Each rank of Parallel::group(Axis::kTensor) has some rows of the weight, and a part of the sum
  // that the product is: the bias, which all of them have, is added by one.
  bool is_part_of_sum = false;
  int64_t out() const;
};
// x [N, in] -> x * W + b [N, out()].
Var linear(Context& context, const Var& x, const LinearSpec& spec);

// ---- MLP (functions_mlp.cpp)

struct MlpSpec {
  LinearSpec up;  // with a gate two parts of equal size, gate and up
  LinearSpec down;
  bool has_gate = false;
  kernels::Activation activation = kernels::Activation::kNone;  // with a gate the one behind it
};
// x [N, up.in] -> activation(up(x)), or f(gate(x)) * up(x) -> down [N, down.out()]. One node of the
// tape, so that what lies between the products is nobody else's; in as many tiles as the context
// says.
Var mlp(Context& context, const Var& x, const MlpSpec& spec);

// ---- attention (functions_attention.cpp)

// Attention within each sequence, qkv [N, packed()] -> [N, heads * D]. With context.cache the keys
// and values are also put into the cache as those of `layer`; a single new position attends to the
// cached ones that the mask lets it see. In training `dropout` applies to the attention
// probabilities. With Parallel::group(Axis::kSequence), the rows are parts of sequences, which
// attention sees whole (model/exchange/sequence.h); it is collective. With a value_dim below D a
// row of qkv has as narrow values, and y is [N, heads * value_dim]: they are filled up with zeros.
// sinks: a parameter [heads], a score that each query weighs beside those of its keys
// (kernels/attention/attention_sink.h). Unsupported with a cache, and where ranks exchange heads.
Var attention(Context& context, const kernels::AttentionSpec& spec, const Var& qkv, int64_t layer,
              const DropoutSpec& dropout = {}, ParamId sinks = kNoParam);
// Rotates queries and keys in place, by the positions of the rows; `qkv` is moved in because nobody
// else may hold it. The table outlives the backward pass.
Var rope(Context& context, const kernels::AttentionShape& shape, const kernels::RotaryTable& table,
         const SequenceRows& rows, Var qkv);

// ---- norm (functions_norm.cpp, functions_head_norm.cpp)

enum class NormForm : uint8_t { kRms, kLayer };
struct NormSpec {
  NormForm form = NormForm::kRms;
  ParamId gamma = kNoParam;
  ParamId beta = kNoParam;  // of a layer norm, or none
  float eps = 0;
  kernels::RmsWeight weight = kernels::RmsWeight::kPlain;  // of an RMS norm
};
struct NormOutput {
  Var sum;  // residual + branch, the new residual stream
  Var y;    // norm(sum)
};
// `branch` may be undefined: then sum is the residual itself. Both gradients that meet at the
// residual stream are added by the norm's backward kernel.
NormOutput norm(Context& context, const Var& residual, const Var& branch, const NormSpec& spec);

// Norms of queries and of keys without biases, in place; `qkv` as of rope().
struct HeadNormSpec {
  enum class Weights : uint8_t {
    kShared,   // one [D], by which each head is normed by itself
    kOverAll,  // one [heads * D], and one [kv_heads * D], of all ranks that share the layer: all
               // are normed together, and ranks tell each other theirs
    kEachOwn,  // one [D] of each head
  };
  Weights weights = Weights::kShared;
  std::vector<ParamId> queries, keys;
  // With kEachOwn, the heads that are here are those from these on; the weights of others have
  // zeros for gradients here.
  int64_t first_query = 0, first_key = 0;
  int key_copies = 1;  // ranks that have these heads of keys
  NormSpec norm{};     // without parameters
};
Var norm_heads(Context& context, const kernels::AttentionShape& shape, const HeadNormSpec& spec,
               Var qkv);

// ---- dropout, factors, activations (functions.cpp)

// Identity unless the context trains and p > 0. Rows of x are those of sequences of `length`, or of
// parts of such a length.
Var dropout(Context& context, Var x, const DropoutSpec& spec, int64_t length);

// x times a factor; x itself if that is 1.
Var scaled(Context& context, Var x, float factor);

// The first row of each sample in the mean's place, of the rows that are no padding: `rows` have
// ranges of keys. The other rows become zeros, and have no gradient.
Var mean_of_rows(Context& context, const Var& x, const SequenceRows& rows);

// x through an activation.
Var activated(Context& context, const Var& x, kernels::Activation activation);

// ---- embedding (functions_embedding.cpp)

struct EmbeddingSpec {
  ParamId table = kNoParam;
  ParamId positions = kNoParam;  // or none
  ParamId segments = kNoParam;   // or none
  int64_t first_position = 0;    // the row of `positions` that a sequence begins with
  int64_t width = 0;             // of what is given
  // Through which what `table` has goes before others are added; unset: it is as wide as they are.
  std::optional<LinearSpec> projection = {};
};
// The tokens of a batch.
struct TokenRows {
  Tensor tokens;   // int32 [N]
  Tensor order{};  // int32 [2, N], kernels::sort_tokens() of the tokens; with a tape only
  // The same of the rows' own positions, if they have some and the spec has a table of them.
  Tensor position_order{};
  Tensor segments{}, segment_order{};  // with a table of them: int32 [N], and the same of them
  SequenceRows rows{};
};
// The sum of the rows of all tables -> [N, width].
Var embed(Context& context, const TokenRows& tokens, DType dtype, const EmbeddingSpec& spec);

// ---- loss head (functions_loss.cpp)

// What makes logits of x: x * W^T + b, W [V, C], b [V], which a cap c > 0 makes c tanh(logit / c).
struct LogitsSpec {
  ParamId weight = kNoParam;
  ParamId bias = kNoParam;  // or none
  float softcap = 0;        // 0: none
  bool is_whole = false;    // on each of the ranks that share layers: V is no vocabulary
};
// -log softmax(logits)[target], fp32 [N], times the weights of the rows, fp32 [N], if they have
// some; see LanguageModel::loss for targets and grad_scale. With a tape the head's gradients are
// complete on return and a node that starts the backward flow is recorded.
Tensor linear_cross_entropy(Context& context, Var x, const LogitsSpec& spec, const Tensor& targets,
                            float grad_scale, const Tensor& row_weights = {});

// Losses fp32 [N] of scores [N, K] beside the values that they are to be, fp32 [samples, K], where
// targets are not negative. Records as linear_cross_entropy() does.
Tensor value_losses(Context& context, Var scores, kernels::ValueLoss loss, const Tensor& values,
                    const Tensor& targets, float grad_scale);

// ---- losses beside a teacher (functions_distillation.cpp)

// What a teacher's logits are made of: its last state [N, width there], and its head, whose first
// rows are those of the tokens that both models know.
struct TaughtLogits {
  Tensor x;
  LogitsSpec spec{};
  kernels::DistillationRule rule{};
};
// The rows whose losses are wanted.
struct LossRows {
  Tensor targets;        // int32 [N]; negative: no loss
  Tensor row_weights{};  // fp32 [N]; undefined: all are 1
};
// alpha * linear_cross_entropy() + beta * temperature^2 * KL(teacher || model) of each row. Records
// as linear_cross_entropy() does, and reports kDivergenceFigure, without beta.
Tensor distilled_cross_entropy(Context& context, Var x, const LogitsSpec& spec,
                               const LossRows& rows, const TaughtLogits& taught, float grad_scale);
// A state [N, width] that another is to be.
struct TaughtState {
  Tensor teacher;
  float weight = 1;
};
// Losses fp32 [N]: weight * the mean over the width of the squares of x - teacher. Records a node
// that starts a flow of gradients into x; reports nothing.
Tensor hidden_losses(Context& context, const Var& x, const TaughtState& taught,
                     const LossRows& rows, float grad_scale);
// Names of what is told beside the loss, as metrics: the latter is the sum of all hidden_losses().
inline constexpr std::string_view kDivergenceFigure = "loss_distillation";
inline constexpr std::string_view kHiddenFigure = "loss_hidden";

// ---- losses of pairs of texts (functions_preference.cpp)

// Each sample is two texts, of which the first is to be preferred.
struct PreferencePairs {
  kernels::PreferenceRule rule{};
  Tensor targets;    // int32 [N]; negative: no loss
  Tensor sides;      // int32 [N]: see kernels::PreferenceSumsArgs
  Tensor reference;  // fp64 [samples, 2]: log p of both by the reference, if that is asked
  int64_t samples = 0;
};
// Losses fp32 [samples] of the log probabilities that logits of x give the two texts of each
// sample; ranks with parts of the same samples have shares of them. The logits are made twice where
// the pass differentiates: what a token weighs follows from all of its sample's. Records as
// linear_cross_entropy() does, and reports preference_figures().
Tensor preference_losses(Context& context, Var x, const LogitsSpec& spec,
                         const PreferencePairs& pairs, float grad_scale);
// Names of what is told beside the loss, as metrics: means over samples.
std::vector<std::string_view> preference_figures();

}  // namespace ds
