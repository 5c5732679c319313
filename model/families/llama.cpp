#include "model/families/llama.h"

#include "model/activations/recompute.h"
#include "model/families/frame.h"

namespace ds {
namespace {

class LlamaBlock final : public Block {
 public:
  LlamaBlock(const LlamaConfig& config, const BuildContext& build, int64_t layer);
  Residual forward(Context& context, const SequenceRows& rows, Residual in) const override;

 private:
  ModelDimensions dims_;
  int64_t layer_;
  float theta_;
  DropoutSpec attention_dropout_;
  NormSpec input_norm_, post_attention_norm_;
  LinearSpec qkv_, o_;
  MlpSpec mlp_;
};

LlamaBlock::LlamaBlock(const LlamaConfig& config, const BuildContext& build, int64_t layer)
    : Block(build.path),
      dims_(dimensions(config)),
      layer_(layer),
      theta_(static_cast<float>(config.rope_theta)) {
  attention_dropout_ = {static_cast<float>(config.attention_dropout),
                        static_cast<uint64_t>(layer + 1)};
  const auto part = [&](const BuildContext& parent, const char* name, int64_t in, int64_t out,
                        bool biased) {
    return linear_part(parent.child(name), in, out, WeightLayout::kOutIn,
                       biased ? Bias::kZeros : Bias::kNone, config.initializer_range);
  };
  const int64_t width = dims_.width;
  const int64_t queries = dims_.heads * dims_.head_dim;
  const int64_t keys = dims_.kv_heads * dims_.head_dim;
  const BuildContext attn = build.child("self_attn");
  const BuildContext mlp = build.child("mlp");
  input_norm_ = rms_norm_params(build.child("input_layernorm"), width, config.rms_norm_eps);
  qkv_.in = width;
  qkv_.parts = {part(attn, "q_proj", width, queries, config.attention_bias),
                part(attn, "k_proj", width, keys, config.attention_bias),
                part(attn, "v_proj", width, keys, config.attention_bias)};
  o_.in = queries;
  o_.parts = {part(attn, "o_proj", queries, width, config.attention_bias)};
  post_attention_norm_ =
      rms_norm_params(build.child("post_attention_layernorm"), width, config.rms_norm_eps);
  mlp_.gate = MlpGate::kSilu;
  mlp_.up.in = width;
  mlp_.up.parts = {part(mlp, "gate_proj", width, dims_.inner, config.mlp_bias),
                   part(mlp, "up_proj", width, dims_.inner, config.mlp_bias)};
  mlp_.down.in = dims_.inner;
  mlp_.down.parts = {part(mlp, "down_proj", dims_.inner, width, config.mlp_bias)};
}

Residual LlamaBlock::forward(Context& context, const SequenceRows& rows, Residual in) const {
  const kernels::AttentionShape shape{.batch = rows.batch,
                                      .length = rows.length,
                                      .heads = dims_.heads,
                                      .kv_heads = dims_.kv_heads,
                                      .head_dim = dims_.head_dim};
  NormOutput normed = norm(context, in.sum, in.branch, input_norm_);
  in = {};
  const int64_t first_position = rows.first_position;
  Var branch = recompute_part(
      context, RecomputedPart::kAttention, std::move(normed.y),
      [this, shape, first_position](Context& inside, Var y) {
        Var qkv = rope(inside, shape, theta_, first_position, linear(inside, y, qkv_));
        y = {};
        return linear(inside, attention(inside, shape, qkv, layer_, attention_dropout_), o_);
      });
  normed = norm(context, normed.sum, branch, post_attention_norm_);
  branch = recompute_part(context, RecomputedPart::kMlp, std::move(normed.y),
                          [this](Context& inside, const Var& y) { return mlp(inside, y, mlp_); });
  return {std::move(normed.sum), std::move(branch)};
}

}  // namespace

Stage::Parts llama_stage(const LlamaConfig& config, const BuildContext& root, LayerRange layers) {
  const ModelDimensions dims = dimensions(config);
  const Initializer init = normal(config.initializer_range);
  const Shape table{dims.vocabulary, dims.width};
  const BuildContext body = root.child("model");
  const bool tied = config.tie_word_embeddings;
  Stage::Parts parts{.config = config, .dtype = root.dtype};
  if (layers.has(0)) {
    parts.embedding = {.spec = {.table = body.child("embed_tokens").table("weight", table, init),
                                .width = dims.width}};
  }
  add_blocks<LlamaBlock>(parts, config, body, "layers", layers);
  if (layers.has(dims.layers + 1)) {
    const int unit = narrow<int>(dims.layers) + 1;
    add_head(parts,
             rms_norm_params(body.child("norm").in_unit(unit), dims.width, config.rms_norm_eps),
             {.table = body.child("embed_tokens"),
              .own = root.child("lm_head"),
              .tied = tied,
              .shape = table,
              .init = init},
             unit);
  }
  if (tied) share_table(parts, root.store);
  return parts;
}

}  // namespace ds
