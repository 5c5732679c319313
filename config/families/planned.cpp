#include "config/families/planned.h"

#include "config/families/spec/limits.h"
#include "config/reader/fields.h"

namespace ds {

std::span<const EnumName> names_of(MoeMlpType) {
  static constexpr EnumName kNames[] = {
      {"standard", static_cast<int>(MoeMlpType::kStandard)},
      {"residual", static_cast<int>(MoeMlpType::kResidual)},
  };
  return kNames;
}

void fields(Visitor& v, BertConfig& c) {
  v.field("num_hidden_layers", c.num_hidden_layers,
          {.meaning = "Transformer layers.", .min = 1, .max = kMostLayers});
  v.field("num_attention_heads", c.num_attention_heads,
          {.meaning = "Attention heads; divides hidden_size.", .min = 1, .max = kMostHeads});
  v.field("hidden_size", c.hidden_size,
          {.meaning = "Width of the hidden state.", .min = 1, .max = kLargestWidth});
  v.field("intermediate_size", c.intermediate_size,
          {.meaning = "Width of the MLP.", .min = 1, .max = kLargestInnerWidth});
  v.field("max_position_embeddings", c.max_position_embeddings,
          {.meaning = "Longest sequence, in tokens.", .min = 1, .max = kMostPositions});
  v.field("type_vocab_size", c.type_vocab_size, {.meaning = "Segment types.", .min = 1});
  v.field("vocab_size", c.vocab_size,
          {.meaning = "Tokens in the vocabulary.", .min = 1, .max = kLargestVocabulary});
  v.field("hidden_act", c.hidden_act, {.meaning = "Activation of the MLP."});
  v.field("hidden_dropout_prob", c.hidden_dropout_prob,
          {.meaning = "Dropout after embeddings and sub-layers.", .min = 0, .below = 1});
  v.field("attention_probs_dropout_prob", c.attention_probs_dropout_prob,
          {.meaning = "Dropout on attention weights.", .min = 0, .below = 1});
  v.field("layer_norm_eps", c.layer_norm_eps,
          {.meaning = "Epsilon of the layer norms.", .above = 0});
  v.field("initializer_range", c.initializer_range,
          {.meaning = "Standard deviation of initial weights.", .min = 0});
}

void fields(Visitor& v, MoeGptConfig& c) {
  fields(v, c.gpt2);
  v.field("num_experts", c.num_experts,
          {.meaning = "Experts of each MoE layer, or one number for all of them.",
           .min = 1,
           .one_or_list = true});
  v.field("expert_interval", c.expert_interval,
          {.meaning = "Every how many layers the MLP is a mixture of experts.", .min = 1});
  v.field("k", c.k, {.meaning = "Experts per token.", .min = 1});
  v.field("capacity_factor", c.capacity_factor,
          {.meaning = "Places per expert in training, relative to an even spread.", .above = 0});
  v.field("eval_capacity_factor", c.eval_capacity_factor,
          {.meaning = "The same in evaluation.", .above = 0});
  v.field("min_capacity", c.min_capacity,
          {.meaning = "Fewest places per expert, in tokens.", .min = 0});
  v.field("moe_loss_coeff", c.moe_loss_coeff,
          {.meaning = "Weight of the load-balance loss.", .min = 0});
  v.field("drop_tokens", c.drop_tokens, {.meaning = "Tokens beyond the capacity are dropped."});
  v.field("mlp_type", c.mlp_type,
          {.meaning = "residual adds a dense MLP beside the experts (PR-MoE)."});
}

void fields(Visitor& v, ResNetConfig& c) {
  v.field("num_channels", c.num_channels, {.meaning = "Channels of the image.", .min = 1});
  v.field("embedding_size", c.embedding_size, {.meaning = "Channels of the stem.", .min = 1});
  v.field("hidden_sizes", c.hidden_sizes, {.meaning = "Channels of each stage.", .min = 1});
  v.field("depths", c.depths, {.meaning = "Blocks of each stage.", .min = 1});
  v.field("layer_type", c.layer_type, {.meaning = "Kind of block: basic or bottleneck."});
  v.field("image_size", c.image_size, {.meaning = "Edge of the image, in pixels.", .min = 1});
  v.field("num_labels", c.num_labels, {.meaning = "Classes.", .min = 1});
}

std::vector<SizeConflict> size_conflicts(const BertConfig& config) {
  std::vector<SizeConflict> found;
  add_unless_divides(found, "num_attention_heads", config.num_attention_heads, config.hidden_size,
                     "hidden_size");
  return found;
}

}  // namespace ds
