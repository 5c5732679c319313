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
      dims_(dimensions_here(build, dimensions(config))),
      layer_(layer),
      theta_(static_cast<float>(config.rope_theta)) {
  attention_dropout_ = {static_cast<float>(config.attention_dropout),
                        static_cast<uint64_t>(layer + 1)};
  const auto bias_of = [](bool biased) { return biased ? Bias::kZeros : Bias::kNone; };
  const auto part = [&](const BuildContext& parent, const char* name, int64_t out, bool biased,
                        const LinearCut& cut_here) {
    return linear_part(parent.child(name), config.hidden_size, out, WeightLayout::kOutIn,
                       bias_of(biased), config.initializer_range, cut_here);
  };
  const auto back = [&](const BuildContext& build_of, int64_t in, bool biased,
                        const std::vector<Range>& kept) {
    return linear_layer(build_of, in, config.hidden_size, WeightLayout::kOutIn, bias_of(biased),
                        config.initializer_range, {.in = kept});
  };
  const ModelDimensions all = dimensions(config);
  const BlockCut cut = block_cut(build, all.head_dim);
  const int64_t width = all.width;
  const int64_t queries = all.heads * all.head_dim;
  const int64_t keys = all.kv_heads * all.head_dim;
  const BuildContext attn = build.child("self_attn");
  const BuildContext mlp = build.child("mlp");
  input_norm_ = rms_norm_params(build.child("input_layernorm"), width, config.rms_norm_eps);
  qkv_.in = width;
  const LinearCut of_keys{.out = cut.keys, .summed = cut.keys_summed};
  qkv_.parts = {part(attn, "q_proj", queries, config.attention_bias, {.out = cut.queries}),
                part(attn, "k_proj", keys, config.attention_bias, of_keys),
                part(attn, "v_proj", keys, config.attention_bias, of_keys)};
  o_ = back(attn.child("o_proj"), queries, config.attention_bias, cut.queries);
  post_attention_norm_ =
      rms_norm_params(build.child("post_attention_layernorm"), width, config.rms_norm_eps);
  mlp_.gate = MlpGate::kSilu;
  mlp_.up.in = width;
  mlp_.up.parts = {part(mlp, "gate_proj", all.inner, config.mlp_bias, {.out = cut.inner}),
                   part(mlp, "up_proj", all.inner, config.mlp_bias, {.out = cut.inner})};
  mlp_.down = back(mlp.child("down_proj"), all.inner, config.mlp_bias, cut.inner);
}

Residual LlamaBlock::forward(Context& context, const SequenceRows& rows, Residual in) const {
  const kernels::AttentionShape shape{.batch = rows.batch,
                                      .length = rows.length,
                                      .heads = dims_.heads,
                                      .kv_heads = dims_.kv_heads,
                                      .head_dim = dims_.head_dim};
  NormOutput normed = norm(context, in.sum, in.branch, input_norm_);
  in = {};
  const Positions positions = rows.positions;
  Var branch =
      recompute_part(context, RecomputedPart::kAttention, std::move(normed.y),
                     [this, shape, positions](Context& inside, Var y) {
                       y = enter_tensor(inside, std::move(y));
                       Var qkv = rope(inside, shape, theta_, positions, linear(inside, y, qkv_));
                       y = {};
                       const Var heads = attention(inside, shape, qkv, layer_, attention_dropout_);
                       Context end = inside.end_of_segment();
                       return leave_tensor(end, linear(end, heads, o_));
                     });
  normed = norm(context, normed.sum, branch, post_attention_norm_);
  branch = recompute_part(context, RecomputedPart::kMlp, std::move(normed.y),
                          [this](Context& inside, Var y) {
                            y = enter_tensor(inside, std::move(y));
                            Context end = inside.end_of_segment();
                            return leave_tensor(end, mlp(end, y, mlp_));
                          });
  return {std::move(normed.sum), std::move(branch)};
}

}  // namespace

Stage::Parts llama_stage(const LlamaConfig& config, const BuildContext& root, LayerRange layers) {
  const ModelDimensions dims = dimensions(config);
  const Initializer init = normal(config.initializer_range);
  const Shape table{dims.vocabulary, dims.width};
  const BuildContext body = root.child("model");
  const BuildContext tokens = of_table(body.child("embed_tokens"), config, layers);
  const bool tied = config.tie_word_embeddings;
  Stage::Parts parts{.config = config, .dtype = root.dtype};
  if (layers.has(0)) {
    parts.embedding = {.spec = {.table = tokens.table("weight", table, init), .width = dims.width}};
  }
  add_blocks<LlamaBlock>(parts, config, body, "layers", layers);
  if (layers.has(dims.layers + 1)) {
    const int unit = narrow<int>(dims.layers) + 1;
    add_head(
        parts, rms_norm_params(body.child("norm").in_unit(unit), dims.width, config.rms_norm_eps),
        {.table = tokens, .own = root.child("lm_head"), .tied = tied, .shape = table, .init = init},
        unit);
  }
  if (tied) share_table(parts, root.store);
  return parts;
}

}  // namespace ds
