// Sizes of families whose heads share the hidden state evenly, each with keys of its own, in the
// words that most of their files have. For sources of families alone.
#pragma once

#include "config/families/spec/family.h"
#include "config/families/spec/layer_types.h"
#include "config/families/spec/limits.h"
#include "config/reader/fields.h"

namespace ds::plain_sizes {

inline void size_field(Visitor& v, std::string_view key, int64_t& member, const char* meaning,
                       int64_t most) {
  v.field(key, member, {.meaning = meaning, .effect = Effect::kUsed, .min = 1, .max = most});
}

// The width of the MLP, whatever the family calls it.
template <class Config>
auto& inner(Config& c) {
  if constexpr (requires { c.ffn_dim; }) {
    return c.ffn_dim;
  } else {
    return c.intermediate_size;
  }
}

// Dropout of probabilities, likewise.
template <class Config>
auto& attention_dropout(Config& c) {
  if constexpr (requires { c.attention_probs_dropout_prob; }) {
    return c.attention_probs_dropout_prob;
  } else {
    return c.attention_dropout;
  }
}

// All of them but the vocabulary.
template <class Config>
void fields(Visitor& v, Config& c, const char* positions = "Longest sequence, in tokens.") {
  constexpr bool kIsFfn = requires { c.ffn_dim; };
  size_field(v, "num_hidden_layers", c.num_hidden_layers, "Transformer layers.", kMostLayers);
  size_field(v, "num_attention_heads", c.num_attention_heads,
             "Attention heads; divides hidden_size.", kMostHeads);
  size_field(v, "hidden_size", c.hidden_size, "Width of the hidden state.", kLargestWidth);
  size_field(v, kIsFfn ? "ffn_dim" : "intermediate_size", inner(c), "Width of the MLP.",
             kLargestInnerWidth);
  size_field(v, "max_position_embeddings", c.max_position_embeddings, positions, kMostPositions);
}
template <class Config>
void vocabulary_field(Visitor& v, Config& c) {
  size_field(v, "vocab_size", c.vocab_size, "Tokens in the vocabulary.", kLargestVocabulary);
}

template <class Config>
ModelDimensions dimensions(const Config& c) {
  const int64_t heads = c.num_attention_heads;
  return {.vocabulary = c.vocab_size,
          .positions = c.max_position_embeddings,
          .width = c.hidden_size,
          .layers = c.num_hidden_layers,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = heads < 1 ? 0 : c.hidden_size / heads,
          .inner = inner(c),
          .attention_dropout = attention_dropout(c)};
}

template <class Config>
void set_dimensions(Config& c, const ModelDimensions& dims) {
  c.vocab_size = dims.vocabulary;
  c.max_position_embeddings = dims.positions;
  c.hidden_size = dims.width;
  c.num_hidden_layers = dims.layers;
  if constexpr (requires { c.layer_types; }) resize_layers(c.layer_types, dims.layers);
  c.num_attention_heads = dims.heads;
  inner(c) = dims.inner;
  attention_dropout(c) = dims.attention_dropout;
}

template <class Config>
std::vector<SizeConflict> size_conflicts(const Config& c) {
  std::vector<SizeConflict> found;
  add_unless_divides(found, "num_attention_heads", c.num_attention_heads, c.hidden_size,
                     "hidden_size");
  if constexpr (requires { c.layer_types; }) {
    add_layer_type_conflicts(found, c.layer_types, c.num_hidden_layers, true);
  }
  return found;
}

}  // namespace ds::plain_sizes
