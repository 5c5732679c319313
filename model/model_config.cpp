#include "model/model_config.h"

#include "core/error.h"
#include "core/model_limits.h"
#include "model/activation_name.h"

namespace ds {
namespace {

void check_size(const char* field, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return;
  throw ConfigError(fmt::format("model.{} = {}: expected 1 to {}", field, value, most));
}

void check_divides(const char* small_field, int64_t small, const char* large_field, int64_t large) {
  if (large % small == 0) return;
  throw ConfigError(fmt::format("model.{} = {} is not a multiple of model.{} = {}", large_field,
                                large, small_field, small));
}

void check_probability(const char* field, double p) {
  if (p >= 0 && p < 1) return;
  throw ConfigError(fmt::format("model.{} = {}: expected 0 <= p < 1", field, p));
}

void check_above_zero(const char* field, double value) {
  if (value > 0) return;
  throw ConfigError(fmt::format("model.{} = {}: expected a number above 0", field, value));
}

void check_family(const Gpt2Config& c) {
  check_size("vocab_size", c.vocab_size, kLargestVocabulary);
  check_size("n_positions", c.n_positions, kMostPositions);
  check_size("n_embd", c.n_embd, kLargestWidth);
  check_size("n_layer", c.n_layer, kMostLayers);
  check_size("n_head", c.n_head, kMostHeads);
  check_divides("n_head", c.n_head, "n_embd", c.n_embd);
  if (c.n_inner != 0) check_size("n_inner", c.n_inner, kLargestInnerWidth);
  parse_activation(c.activation_function);
  check_probability("resid_pdrop", c.resid_pdrop);
  check_probability("embd_pdrop", c.embd_pdrop);
  check_probability("attn_pdrop", c.attn_pdrop);
  check_above_zero("layer_norm_epsilon", c.layer_norm_epsilon);
  check_above_zero("initializer_range", c.initializer_range);
}

void check_family(const LlamaConfig& c) {
  check_size("vocab_size", c.vocab_size, kLargestVocabulary);
  check_size("max_position_embeddings", c.max_position_embeddings, kMostPositions);
  check_size("hidden_size", c.hidden_size, kLargestWidth);
  check_size("intermediate_size", c.intermediate_size, kLargestInnerWidth);
  check_size("num_hidden_layers", c.num_hidden_layers, kMostLayers);
  check_size("num_attention_heads", c.num_attention_heads, kMostHeads);
  if (c.num_key_value_heads != 0) {
    check_size("num_key_value_heads", c.num_key_value_heads, kMostHeads);
    check_divides("num_key_value_heads", c.num_key_value_heads, "num_attention_heads",
                  c.num_attention_heads);
  }
  if (c.head_dim != 0) {
    check_size("head_dim", c.head_dim, kLargestWidth / c.num_attention_heads);
  } else {
    check_divides("num_attention_heads", c.num_attention_heads, "hidden_size", c.hidden_size);
  }
  const int64_t head_dim = dimensions(c).head_dim;
  if (head_dim < 2 || head_dim % 2 != 0) {
    throw ConfigError(fmt::format(
        "model.head_dim = {}: rotary positions pair its halves, expected an even number",
        head_dim));
  }
  check_probability("attention_dropout", c.attention_dropout);
  check_above_zero("rms_norm_eps", c.rms_norm_eps);
  check_above_zero("rope_theta", c.rope_theta);
  check_above_zero("initializer_range", c.initializer_range);
}

ModelDimensions dimensions_of(const Gpt2Config& c) {
  return {.vocabulary = c.vocab_size,
          .positions = c.n_positions,
          .width = c.n_embd,
          .layers = c.n_layer,
          .heads = c.n_head,
          .kv_heads = c.n_head,
          .head_dim = c.n_embd / c.n_head,
          .inner = c.n_inner > 0 ? c.n_inner : 4 * c.n_embd};
}

ModelDimensions dimensions_of(const LlamaConfig& c) {
  return {.vocabulary = c.vocab_size,
          .positions = c.max_position_embeddings,
          .width = c.hidden_size,
          .layers = c.num_hidden_layers,
          .heads = c.num_attention_heads,
          .kv_heads = c.num_key_value_heads > 0 ? c.num_key_value_heads : c.num_attention_heads,
          .head_dim = c.head_dim > 0 ? c.head_dim : c.hidden_size / c.num_attention_heads,
          .inner = c.intermediate_size};
}

}  // namespace

ModelDimensions dimensions(const ModelConfig& config) {
  return std::visit([](const auto& family) { return dimensions_of(family); }, config);
}

void check(const ModelConfig& config) {
  std::visit([](const auto& family) { check_family(family); }, config);
}

}  // namespace ds
