#include "model/families/gpt.h"

#include <cmath>

#include "model/activation_name.h"
#include "model/activations/recompute.h"
#include "model/families/frame.h"

namespace ds {
namespace {

class Gpt2Block final : public Block {
 public:
  Gpt2Block(const Gpt2Config& config, const BuildContext& build, int64_t layer);
  Residual forward(Context& context, const SequenceRows& rows, Residual in) const override;

 private:
  ModelDimensions dims_;
  int64_t layer_;
  DropoutSpec attention_dropout_, attention_out_dropout_, mlp_dropout_;
  NormSpec ln_1_, ln_2_;
  LinearSpec c_attn_, attn_c_proj_;
  MlpSpec mlp_;
};

LinearSpec conv1d(const BuildContext& build, int64_t in, int64_t out, double deviation,
                  const LinearCut& cut) {
  return linear_layer(build, in, out, WeightLayout::kInOut, Bias::kZeros, deviation, cut);
}

// Queries, keys and values side by side, and of each the same heads.
std::vector<Range> packed_cut(const std::vector<Range>& of_each, int64_t width) {
  std::vector<Range> packed;
  for (int64_t part = 0; part < 3; ++part) {
    for (const Range& heads : of_each) {
      packed.push_back({part * width + heads.begin, part * width + heads.end});
    }
  }
  return packed;
}

Gpt2Block::Gpt2Block(const Gpt2Config& config, const BuildContext& build, int64_t layer)
    : Block(build.path), dims_(dimensions_here(build, dimensions(config))), layer_(layer) {
  const double deviation = config.initializer_range;
  // Each block adds two branches to the residual stream; scaled so that its variance does not grow
  // with depth (GPT-2 paper, section 2.3).
  const double into_residual = deviation / std::sqrt(2.0 * static_cast<double>(dims_.layers));
  const int64_t width = dims_.width, inner = dimensions(config).inner;
  const BlockCut cut = block_cut(build, dims_.head_dim);
  const BuildContext attn = build.child("attn");
  const BuildContext mlp = build.child("mlp");
  ln_1_ = layer_norm_params(build.child("ln_1"), width, config.layer_norm_epsilon);
  const auto residual_p = static_cast<float>(config.resid_pdrop);
  const auto site = static_cast<uint64_t>(3 * layer + 1);  // 0 is the embedding's
  attention_dropout_ = {static_cast<float>(config.attn_pdrop), site};
  attention_out_dropout_ = {residual_p, site + 1};
  mlp_dropout_ = {residual_p, site + 2};
  c_attn_ = conv1d(attn.child("c_attn"), width, 3 * width, deviation,
                   {.out = packed_cut(cut.queries, width)});
  attn_c_proj_ = conv1d(attn.child("c_proj"), width, width, into_residual, {.in = cut.queries});
  ln_2_ = layer_norm_params(build.child("ln_2"), width, config.layer_norm_epsilon);
  mlp_.up = conv1d(mlp.child("c_fc"), width, inner, deviation, {.out = cut.inner});
  mlp_.down = conv1d(mlp.child("c_proj"), inner, width, into_residual, {.in = cut.inner});
  mlp_.activation = parse_activation(config.activation_function);
}

Residual Gpt2Block::forward(Context& context, const SequenceRows& rows, Residual in) const {
  const kernels::AttentionShape shape{.batch = rows.batch,
                                      .length = rows.length,
                                      .heads = dims_.heads,
                                      .kv_heads = dims_.kv_heads,
                                      .head_dim = dims_.head_dim};
  NormOutput normed = norm(context, in.sum, in.branch, ln_1_);
  in = {};
  const int64_t length = rows.length;
  Var branch =
      recompute_part(context, RecomputedPart::kAttention, std::move(normed.y),
                     [this, shape, length](Context& inside, Var y) {
                       Var qkv = linear(inside, enter_tensor(inside, std::move(y)), c_attn_);
                       Var heads = attention(inside, shape, qkv, layer_, attention_dropout_);
                       qkv = {};
                       Context end = inside.end_of_segment();
                       return dropout(end, leave_tensor(end, linear(end, heads, attn_c_proj_)),
                                      attention_out_dropout_, length);
                     });
  normed = norm(context, normed.sum, branch, ln_2_);
  branch = recompute_part(
      context, RecomputedPart::kMlp, std::move(normed.y), [this, length](Context& inside, Var y) {
        y = enter_tensor(inside, std::move(y));
        Context end = inside.end_of_segment();
        y = mlp(end, y, mlp_);
        return dropout(end, leave_tensor(end, std::move(y)), mlp_dropout_, length);
      });
  return {std::move(normed.sum), std::move(branch)};
}

}  // namespace

Stage::Parts gpt2_stage(const Gpt2Config& config, const BuildContext& root, LayerRange layers) {
  const ModelDimensions dims = dimensions(config);
  const Initializer init = normal(config.initializer_range);
  const Shape table{dims.vocabulary, dims.width};
  const BuildContext body = root.child("transformer");
  const BuildContext wte = of_table(body.child("wte"), config, layers);
  const bool tied = config.tie_word_embeddings;
  Stage::Parts parts{.config = config, .dtype = root.dtype};
  if (layers.has(0)) {
    parts.embedding = {
        .spec = {.table = wte.table("weight", table, init),
                 .positions = body.child("wpe").param("weight", {dims.positions, dims.width}, init,
                                                      ModuleKind::kEmbedding),
                 .width = dims.width},
        .dropout = {static_cast<float>(config.embd_pdrop), 0}};
  }
  add_blocks<Gpt2Block>(parts, config, body, "h", layers);
  if (layers.has(dims.layers + 1)) {
    const int unit = narrow<int>(dims.layers) + 1;
    add_head(
        parts,
        layer_norm_params(body.child("ln_f").in_unit(unit), dims.width, config.layer_norm_epsilon),
        {.table = wte, .own = root.child("lm_head"), .tied = tied, .shape = table, .init = init},
        unit);
  }
  if (tied) share_table(parts, root.store);
  return parts;
}

}  // namespace ds
