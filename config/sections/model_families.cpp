#include "config/sections/model_families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/reader/convert.h"
#include "config/reader/fields.h"
#include "config/sections/model_limits.h"
#include "core/error.h"

namespace ds {

std::span<const EnumName> names_of(ModelFamily) {
  static constexpr EnumName kNames[] = {
      {"gpt2", static_cast<int>(ModelFamily::kGpt2)},
      {"llama", static_cast<int>(ModelFamily::kLlama)},
      {"bert", static_cast<int>(ModelFamily::kBert)},
      {"moe_gpt", static_cast<int>(ModelFamily::kMoeGpt)},
      {"resnet", static_cast<int>(ModelFamily::kResNet)},
  };
  return kNames;
}

std::span<const EnumName> names_of(MoeMlpType) {
  static constexpr EnumName kNames[] = {
      {"standard", static_cast<int>(MoeMlpType::kStandard)},
      {"residual", static_cast<int>(MoeMlpType::kResidual)},
  };
  return kNames;
}

void fields(Visitor& v, Gpt2Config& c) {
  v.field(
      "n_layer", c.n_layer,
      {.meaning = "Transformer layers.", .effect = Effect::kUsed, .min = 1, .max = kMostLayers});
  v.field("n_head", c.n_head,
          {.meaning = "Attention heads; divides n_embd.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostHeads});
  v.field("n_embd", c.n_embd,
          {.meaning = "Width of the hidden state.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth});
  v.field("n_inner", c.n_inner,
          {.meaning = "Width of the MLP.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestInnerWidth,
           .unset_meaning = "4 * n_embd"});
  v.field("n_positions", c.n_positions,
          {.meaning = "Longest sequence, in tokens.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostPositions});
  v.field("vocab_size", c.vocab_size,
          {.meaning = "Tokens in the vocabulary.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestVocabulary});
  v.field(
      "activation_function", c.activation_function,
      {.meaning = "Activation of the MLP; gelu_new is the tanh form of gelu.",
       .effect = Effect::kUsed,
       .only = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "relu", "silu", "swish"}});
  v.field(
      "resid_pdrop", c.resid_pdrop,
      {.meaning = "Dropout after each sub-layer.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field(
      "embd_pdrop", c.embd_pdrop,
      {.meaning = "Dropout after the embeddings.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field(
      "attn_pdrop", c.attn_pdrop,
      {.meaning = "Dropout on attention weights.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field("layer_norm_epsilon", c.layer_norm_epsilon,
          {.meaning = "Epsilon of the layer norms.", .effect = Effect::kUsed, .above = 0});
  v.field(
      "initializer_range", c.initializer_range,
      {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .above = 0});
  v.field(
      "tie_word_embeddings", c.tie_word_embeddings,
      {.meaning = "The output projection shares the token embedding.", .effect = Effect::kUsed});
}

void fields(Visitor& v, LlamaConfig& c) {
  v.field(
      "num_hidden_layers", c.num_hidden_layers,
      {.meaning = "Transformer layers.", .effect = Effect::kUsed, .min = 1, .max = kMostLayers});
  v.field("num_attention_heads", c.num_attention_heads,
          {.meaning = "Query heads.", .effect = Effect::kUsed, .min = 1, .max = kMostHeads});
  v.field("num_key_value_heads", c.num_key_value_heads,
          {.meaning = "Key and value heads; divides num_attention_heads.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostHeads,
           .unset_meaning = "num_attention_heads"});
  v.field("hidden_size", c.hidden_size,
          {.meaning = "Width of the hidden state.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth});
  v.field("head_dim", c.head_dim,
          {.meaning = "Width of one head.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth,
           .unset_meaning = "hidden_size / num_attention_heads"});
  v.field("intermediate_size", c.intermediate_size,
          {.meaning = "Width of the MLP.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestInnerWidth});
  v.field("max_position_embeddings", c.max_position_embeddings,
          {.meaning = "Longest sequence, in tokens.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostPositions});
  v.field("vocab_size", c.vocab_size,
          {.meaning = "Tokens in the vocabulary.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestVocabulary});
  v.field("hidden_act", c.hidden_act,
          {.meaning = "Gate activation of the MLP.", .effect = Effect::kUsed, .only = {"silu"}});
  v.field("rms_norm_eps", c.rms_norm_eps,
          {.meaning = "Epsilon of the norms.", .effect = Effect::kUsed, .above = 0});
  v.field("rope_theta", c.rope_theta,
          {.meaning = "Base of the rotary frequencies.", .effect = Effect::kUsed, .above = 0});
  v.field("attention_bias", c.attention_bias,
          {.meaning = "The attention projections have biases.", .effect = Effect::kUsed});
  v.field("mlp_bias", c.mlp_bias,
          {.meaning = "The MLP projections have biases.", .effect = Effect::kUsed});
  v.field(
      "attention_dropout", c.attention_dropout,
      {.meaning = "Dropout on attention weights.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field(
      "initializer_range", c.initializer_range,
      {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .above = 0});
  v.field(
      "tie_word_embeddings", c.tie_word_embeddings,
      {.meaning = "The output projection shares the token embedding.", .effect = Effect::kUsed});
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

namespace {

ModelDimensions dimensions_of(const Gpt2Config& c) {
  return {.vocabulary = c.vocab_size,
          .positions = c.n_positions,
          .width = c.n_embd,
          .layers = c.n_layer,
          .heads = c.n_head,
          .kv_heads = c.n_head,
          .head_dim = c.n_embd / c.n_head,
          .inner = c.n_inner.value_or(4 * c.n_embd),
          .attention_dropout = c.attn_pdrop};
}

ModelDimensions dimensions_of(const LlamaConfig& c) {
  return {.vocabulary = c.vocab_size,
          .positions = c.max_position_embeddings,
          .width = c.hidden_size,
          .layers = c.num_hidden_layers,
          .heads = c.num_attention_heads,
          .kv_heads = c.num_key_value_heads.value_or(c.num_attention_heads),
          .head_dim = c.head_dim ? *c.head_dim : c.hidden_size / c.num_attention_heads,
          .inner = c.intermediate_size,
          .attention_dropout = c.attention_dropout};
}

// A number below 1 is out of its own range.
void add_unless_divides(std::vector<SizeConflict>& to, std::string_view key, int64_t part,
                        int64_t whole, std::string_view of) {
  if (part < 1 || whole % part == 0) return;
  to.push_back({key, fmt::format("{} does not divide {} = {}", part, of, whole)});
}

std::vector<SizeConflict> size_conflicts_of(const Gpt2Config& c) {
  std::vector<SizeConflict> found;
  add_unless_divides(found, "n_head", c.n_head, c.n_embd, "n_embd");
  return found;
}

std::vector<SizeConflict> size_conflicts_of(const LlamaConfig& c) {
  std::vector<SizeConflict> found;
  const int64_t heads = c.num_attention_heads;
  if (!c.head_dim) {
    add_unless_divides(found, "num_attention_heads", heads, c.hidden_size, "hidden_size");
  }
  if (c.num_key_value_heads) {
    add_unless_divides(found, "num_key_value_heads", *c.num_key_value_heads, heads,
                       "num_attention_heads");
  }
  if (!found.empty() || heads < 1) return found;
  const int64_t width = dimensions_of(c).head_dim;
  if (width > kLargestWidth / heads) {
    found.push_back({"head_dim", fmt::format("{} for each of {} heads, expected at most {}", width,
                                             heads, kLargestWidth / heads)});
  }
  if (width < 2 || width % 2 != 0) {
    found.push_back({"head_dim", fmt::format("{}: rotary positions pair its halves, expected an "
                                             "even number",
                                             width)});
  }
  return found;
}

// Refuses what a reader of the model section would.
class FieldCheck final : public Visitor {
 public:
  explicit FieldCheck(std::string_view where) : where_(where) {}
  void on_field(const Field& field) override {
    const Value value = field_value(field);
    const bool not_finite =
        value.kind() == Value::Kind::kNumber && !std::isfinite(value.as_number());
    if (not_finite || store(value, field) != Stored::kDone) {
      throw ConfigError(fmt::format("{}{}: {}", where_, field.key, refusal(value, field)));
    }
    const auto& known = field.spec.only;
    if (known.empty() || std::ranges::find(known, value.as_string()) != known.end()) return;
    throw Unsupported(fmt::format("{}{}: \"{}\", this build has \"{}\"", where_, field.key,
                                  value.as_string(), fmt::join(known, "\", \"")));
  }
  void on_section(const Section&) override {}
  void on_collection(const Collection&) override {}

 private:
  const std::string_view where_;
};

}  // namespace

ModelDimensions dimensions(const ModelConfig& config) {
  return std::visit([](const auto& family) { return dimensions_of(family); }, config);
}

std::string_view block_list(const ModelConfig& config) {
  return std::holds_alternative<Gpt2Config>(config) ? "transformer.h" : "model.layers";
}

bool ties_embeddings(const ModelConfig& config) {
  return std::visit([](const auto& family) { return family.tie_word_embeddings; }, config);
}

std::vector<SizeConflict> size_conflicts(const ModelConfig& config) {
  return std::visit([](const auto& family) { return size_conflicts_of(family); }, config);
}

std::vector<SizeConflict> size_conflicts(const BertConfig& config) {
  std::vector<SizeConflict> found;
  add_unless_divides(found, "num_attention_heads", config.num_attention_heads, config.hidden_size,
                     "hidden_size");
  return found;
}

void check(const ModelConfig& config, std::string_view where) {
  FieldCheck visitor(where);
  std::visit([&](auto family) { fields(visitor, family); }, config);
  const std::vector<SizeConflict> found = size_conflicts(config);
  if (found.empty()) return;
  throw ConfigError(fmt::format("{}{}: {}", where, found.front().key, found.front().why));
}

}  // namespace ds
