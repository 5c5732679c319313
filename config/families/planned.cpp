#include "config/families/planned.h"

#include "config/reader/fields.h"

namespace ds {

std::span<const EnumName> names_of(MoeMlpType) {
  static constexpr EnumName kNames[] = {
      {"standard", static_cast<int>(MoeMlpType::kStandard)},
      {"residual", static_cast<int>(MoeMlpType::kResidual)},
  };
  return kNames;
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

}  // namespace ds
