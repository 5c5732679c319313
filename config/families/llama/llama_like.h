// What families have in common whose config.json has Llama's words: their members are called alike,
// and a family lacks some of them. For sources of families alone.
#pragma once

#include <fmt/format.h>

#include "config/families/spec/family.h"
#include "config/families/spec/layer_types.h"
#include "config/families/spec/limits.h"
#include "config/families/spec/rope_scaling.h"
#include "config/reader/fields.h"

namespace ds::llama_like {

// Whether the configuration may say null, and leave a size to others.
template <class Size>
inline constexpr bool kMayBeNull = requires(const Size& size) {
  size.has_value();
};

template <class LlamaLike>
void size_fields(Visitor& v, LlamaLike& c) {
  v.field(
      "num_hidden_layers", c.num_hidden_layers,
      {.meaning = "Transformer layers.", .effect = Effect::kUsed, .min = 1, .max = kMostLayers});
  v.field("num_attention_heads", c.num_attention_heads,
          {.meaning = "Query heads.", .effect = Effect::kUsed, .min = 1, .max = kMostHeads});
  if constexpr (requires { c.num_key_value_heads; }) {
    constexpr bool kIsOptional = kMayBeNull<decltype(c.num_key_value_heads)>;
    v.field("num_key_value_heads", c.num_key_value_heads,
            {.meaning = "Key and value heads; divides num_attention_heads.",
             .effect = Effect::kUsed,
             .min = 1,
             .max = kMostHeads,
             .unset_meaning = kIsOptional ? "num_attention_heads" : ""});
  }
  v.field("hidden_size", c.hidden_size,
          {.meaning = "Width of the hidden state.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth});
  if constexpr (requires { c.head_dim; }) {
    v.field("head_dim", c.head_dim,
            {.meaning = "Width of one head.",
             .effect = Effect::kUsed,
             .min = 1,
             .max = kLargestWidth,
             .unset_meaning =
                 kMayBeNull<decltype(c.head_dim)> ? "hidden_size / num_attention_heads" : ""});
  }
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
}

template <class LlamaLike>
void window_fields(Visitor& v, LlamaLike& c) {
  if constexpr (requires { c.use_sliding_window; }) {
    v.field("use_sliding_window", c.use_sliding_window,
            {.meaning = "Queries of layers from max_window_layers on see a window of keys.",
             .effect = Effect::kUsed});
  }
  if constexpr (requires { c.sliding_window.value(); }) {
    v.field("sliding_window", c.sliding_window,
            {.meaning = "Keys that a query sees, its own included.",
             .effect = Effect::kUsed,
             .min = 1,
             .max = kMostPositions,
             .unset_meaning = "all"});
  }
  if constexpr (requires { c.max_window_layers; }) {
    v.field("max_window_layers", c.max_window_layers,
            {.meaning = "Layers whose queries see all keys, with use_sliding_window.",
             .effect = Effect::kUsed,
             .min = 0,
             .max = kMostLayers});
    layer_types_field(v, c.layer_types, "as max_window_layers says");
  }
}

// The function in the MLP, whatever the family calls it.
template <class Config>
auto& activation(Config& c) {
  if constexpr (requires { c.hidden_act; }) {
    return c.hidden_act;
  } else {
    return c.hidden_activation;
  }
}

// A member under the name that the family has for it.
template <class Member>
struct Named {
  const char* key;
  Member& member;
};
// Clang before 17 doesn't deduce arguments of aggregates without it.
template <class Member>
Named(const char*, Member&) -> Named<Member>;

template <class Config>
auto norm_eps(Config& c) {
  if constexpr (requires { c.rms_norm_eps; }) {
    return Named{"rms_norm_eps", c.rms_norm_eps};
  } else if constexpr (requires { c.norm_epsilon; }) {
    return Named{"norm_epsilon", c.norm_epsilon};
  } else {
    return Named{"layer_norm_eps", c.layer_norm_eps};
  }
}

template <class Config>
auto rotary_base(Config& c) {
  if constexpr (requires { c.rope_theta; }) {
    return Named{"rope_theta", c.rope_theta};
  } else {
    return Named{"rotary_emb_base", c.rotary_emb_base};
  }
}

// For families whose heads may turn in part.
template <class Config>
auto rotary_share(Config& c) {
  if constexpr (requires { c.partial_rotary_factor; }) {
    return Named{"partial_rotary_factor", c.partial_rotary_factor};
  } else {
    return Named{"rotary_pct", c.rotary_pct};
  }
}
template <class Config>
inline constexpr bool kTurnsInPart = requires(Config& c) {
  c.partial_rotary_factor;
}
|| requires(Config& c) { c.rotary_pct; };

template <class LlamaLike>
void rotary_fields(Visitor& v, LlamaLike& c) {
  const auto base = rotary_base(c);
  v.field(base.key, base.member,
          {.meaning = "Base of the rotary frequencies.", .effect = Effect::kUsed, .above = 0});
  if constexpr (kTurnsInPart<LlamaLike>) {
    const auto share = rotary_share(c);
    v.field(share.key, share.member,
            {.meaning = "Share of a head, from its beginning on, that has rotary positions.",
             .effect = Effect::kUsed,
             .above = 0,
             .max = 1});
  }
  v.section("rope_scaling", c.rope_scaling,
            {.meaning = "How rotary positions reach further than those that the model was first "
                        "trained to."});
}

inline void dropout_field(Visitor& v, const char* key, double& member, const char* meaning) {
  v.field(key, member, {.meaning = meaning, .effect = Effect::kUsed, .min = 0, .below = 1});
}

// activations: what the MLP's function may be.
template <class LlamaLike>
void fields(Visitor& v, LlamaLike& c, const std::vector<std::string_view>& activations = {"silu"}) {
  size_fields(v, c);
  constexpr bool kIsAct = requires { c.hidden_act; };
  v.field(kIsAct ? "hidden_act" : "hidden_activation", activation(c),
          {.meaning = "Activation of the MLP.", .effect = Effect::kUsed, .only = activations});
  const auto eps = norm_eps(c);
  v.field(eps.key, eps.member,
          {.meaning = "Epsilon of the norms.", .effect = Effect::kUsed, .above = 0});
  rotary_fields(v, c);
  if constexpr (requires { c.attention_bias; }) {
    v.field("attention_bias", c.attention_bias,
            {.meaning = "The attention projections have biases.", .effect = Effect::kUsed});
  }
  if constexpr (requires { c.mlp_bias; }) {
    v.field("mlp_bias", c.mlp_bias,
            {.meaning = "The MLP projections have biases.", .effect = Effect::kUsed});
  }
  window_fields(v, c);
  dropout_field(v, "attention_dropout", c.attention_dropout, "Dropout on attention weights.");
  v.field(
      "initializer_range", c.initializer_range,
      {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .above = 0});
  v.field(
      "tie_word_embeddings", c.tie_word_embeddings,
      {.meaning = "The output projection shares the token embedding.", .effect = Effect::kUsed});
}

template <class Config>
int64_t key_value_heads(const Config& c) {
  if constexpr (!requires { c.num_key_value_heads; }) {
    return c.num_attention_heads;
  } else if constexpr (kMayBeNull<decltype(c.num_key_value_heads)>) {
    return c.num_key_value_heads.value_or(c.num_attention_heads);
  } else {
    return c.num_key_value_heads;
  }
}

template <class Config>
int64_t head_dim(const Config& c) {
  if constexpr (requires { c.head_dim.value(); }) {
    if (c.head_dim) return *c.head_dim;
  } else if constexpr (requires { c.head_dim; }) {
    return c.head_dim;
  }
  return c.hidden_size / c.num_attention_heads;
}

// The scaling of rotary positions; some families say beside it how many positions were before.
template <class Config>
std::optional<RopeScaling> scaling(const Config& c) {
  std::optional<RopeScaling> scaling = c.rope_scaling;
  if constexpr (requires { c.original_max_position_embeddings; }) {
    if (scaling) {
      scaling->original_max_position_embeddings = c.original_max_position_embeddings;
    }
  }
  return scaling;
}

template <class Config>
ModelDimensions dimensions(const Config& c) {
  return {.vocabulary = c.vocab_size,
          .positions = scaled_positions(scaling(c), c.max_position_embeddings),
          .width = c.hidden_size,
          .layers = c.num_hidden_layers,
          .heads = c.num_attention_heads,
          .kv_heads = key_value_heads(c),
          .head_dim = head_dim(c),
          .inner = c.intermediate_size,
          .attention_dropout = c.attention_dropout};
}

template <class Config>
void set_dimensions(Config& c, const ModelDimensions& dims) {
  c.vocab_size = dims.vocabulary;
  if (dims.positions != dimensions(c).positions) c.max_position_embeddings = dims.positions;
  c.hidden_size = dims.width;
  c.num_hidden_layers = dims.layers;
  if constexpr (requires { c.layer_types; }) resize_layers(c.layer_types, dims.layers);
  c.num_attention_heads = dims.heads;
  if constexpr (requires { c.num_key_value_heads; }) c.num_key_value_heads = dims.kv_heads;
  if constexpr (requires { c.head_dim; }) c.head_dim = dims.head_dim;
  c.intermediate_size = dims.inner;
  c.attention_dropout = dims.attention_dropout;
}

template <class Config>
RotarySpec rotary(const Config& c) {
  RotarySpec spec{.theta = rotary_base(c).member,
                  .scaling = rotary_scaling(scaling(c), c.max_position_embeddings)};
  if constexpr (kTurnsInPart<const Config>) spec.share = rotary_share(c).member;
  return spec;
}

// For scalings that have a factor for each pair of elements.
void add_factor_conflicts(std::vector<SizeConflict>& to, const std::optional<RopeScaling>& scaling,
                          int64_t pairs);

// Whether layers may have a window.
template <class Config>
bool has_window(const Config& c) {
  if constexpr (requires { c.use_sliding_window; }) {
    return c.use_sliding_window && c.sliding_window;
  } else {
    return true;
  }
}

template <class Config>
std::vector<SizeConflict> size_conflicts(const Config& c) {
  std::vector<SizeConflict> found;
  if constexpr (requires { c.layer_types; }) {
    add_layer_type_conflicts(found, c.layer_types, c.num_hidden_layers, has_window(c));
  }
  const int64_t heads = c.num_attention_heads;
  bool is_derived = true;
  if constexpr (requires { c.head_dim.value(); }) {
    is_derived = !c.head_dim;
  } else if constexpr (requires { c.head_dim; }) {
    is_derived = false;
  }
  if (is_derived) {
    add_unless_divides(found, "num_attention_heads", heads, c.hidden_size, "hidden_size");
  }
  add_unless_divides(found, "num_key_value_heads", key_value_heads(c), heads,
                     "num_attention_heads");
  const auto& rope = c.rope_scaling;
  if (rope && rope->rope_type == "llama3" && rope->high_freq_factor <= rope->low_freq_factor) {
    found.push_back({"rope_scaling.high_freq_factor",
                     fmt::format("{}, expected more than low_freq_factor = {}",
                                 rope->high_freq_factor, rope->low_freq_factor)});
  }
  if constexpr (requires { c.original_max_position_embeddings; }) {
    const int64_t original = c.original_max_position_embeddings;
    if (rope && rope->original_max_position_embeddings.value_or(original) != original) {
      found.push_back({"rope_scaling.original_max_position_embeddings",
                       fmt::format("{}, but the model's original_max_position_embeddings is {}",
                                   *rope->original_max_position_embeddings, original)});
    }
  }
  if (!found.empty() || heads < 1) return found;
  const int64_t width = head_dim(c);
  if (width > kLargestWidth / heads) {
    found.push_back({"head_dim", fmt::format("{} for each of {} heads, expected at most {}", width,
                                             heads, kLargestWidth / heads)});
  }
  if (width < 2 || width % 2 != 0) {
    found.push_back({"head_dim", fmt::format("{}: rotary positions pair its halves, expected an "
                                             "even number",
                                             width)});
  }
  if (width < 2) return found;
  if constexpr (kTurnsInPart<const Config>) {
    const auto share = rotary_share(c);
    if (!(share.member > 0 && share.member <= 1)) return found;  // out of its own range
    const auto turns = static_cast<int64_t>(static_cast<double>(width) * share.member);
    if (turns < 2 || turns % 2 != 0) {
      found.push_back({share.key, fmt::format("{} of a head of {} are {} elements, which turn in "
                                              "pairs, expected an even number",
                                              share.member, width, turns)});
    }
  }
  add_factor_conflicts(found, rope, rotary_width(rotary(c), width) / 2);
  return found;
}

struct Biases {
  bool queries_keys_values = false, attention_out = false, mlp = false;
};

// The last token is scored, or each of them, as GenericForSequenceClassification and
// GenericForTokenClassification have it.
inline ClassifierSpecs classifiers() {
  return {.texts = ClassifierSpec{.scores = "score", .has_bias = false, .row = ScoredRow::kLast},
          .tokens = ClassifierSpec{.scores = "score", .dropout = 0.1, .row = ScoredRow::kEach}};
}

template <class Config>
TransformerSpec transformer(const Config& c, const Biases& biases) {
  const bool qkv = biases.queries_keys_values;
  return {.names = {.body = "model",
                    .blocks = "layers",
                    .table = "embed_tokens",
                    .last_norm = "norm",
                    .attention = "self_attn",
                    .mlp = "mlp",
                    .attention_norm = "input_layernorm",
                    .mlp_norm = "post_attention_layernorm"},
          .norms = {.kind = NormKind::kRms, .eps = norm_eps(c).member},
          .attention = {.in = {{"q_proj", qkv}, {"k_proj", qkv}, {"v_proj", qkv}},
                        .out = {"o_proj", biases.attention_out}},
          .mlp = {.in = {{"gate_proj", biases.mlp}, {"up_proj", biases.mlp}},
                  .out = {"down_proj", biases.mlp}},
          .activation = activation(c),
          .rotary = rotary(c),
          .initializer_range = c.initializer_range};
}

// What a file says of rotary positions, and the keys beside it that say some of that, too.
struct RotaryWords {
  Named<double> theta;
  std::optional<RopeScaling>& scaling;
  std::optional<Named<double>> share = {};  // unset: heads turn as a whole
  bool is_longrope_by_old_names = false;    // "su" and "yarn" are longrope, as of the first Phi-3
};
// Takes what config.json says of rotary positions under "rope_scaling" (transformers 4) or
// "rope_parameters" (5), and refuses what changes the frequencies and is not known.
void read_rotary_words(const HfObject& object, const RotaryWords& words);
template <class Config>
RotaryWords rotary_words(Config& c) {
  RotaryWords words{.theta = rotary_base(c), .scaling = c.rope_scaling};
  if constexpr (kTurnsInPart<Config>) words.share.emplace(rotary_share(c));
  return words;
}
template <class Config>
void read_rotary(const HfObject& object, Config& c) {
  read_rotary_words(object, rotary_words(c));
}

// Newer files have rotary positions of either kind of layer under "rope_parameters"; `windowed` is
// the base of layers with a window, which have no scaling.
void read_rotary_of_layers(const HfObject& object, const RotaryWords& words,
                           const Named<double>& windowed);
// For families whose heads have no width of their own.
void refuse_other_head_dim(const HfObject& object, int64_t width, int64_t heads);
template <class Config>
void refuse_other_head_dim(const HfObject& object, const Config& c) {
  refuse_other_head_dim(object, c.hidden_size, c.num_attention_heads);
}

struct WindowedLayers {
  int64_t layers = 0;
  bool may_slide = false;  // the model has a window
};
// Newer files say of each layer what it sees, and that counts: the number of the first layer with a
// window, where all before it have none and all behind it have one, or else the types.
void read_window_layers(const HfObject& object, const WindowedLayers& model,
                        int64_t& first_with_window, LayerTypes& types);

// Families whose first max_window_layers layers have no window, or those of layer_types.
template <class Config>
void read_window_layers(const HfObject& object, Config& c) {
  read_window_layers(object, {c.num_hidden_layers, has_window(c)}, c.max_window_layers,
                     c.layer_types);
}
template <class Config>
std::optional<SlidingWindow> window(const Config& c) {
  if (!has_window(c)) return std::nullopt;
  return SlidingWindow{.keys = *c.sliding_window,
                       .first_layer = c.max_window_layers,
                       .full_layers = full_layers(c.layer_types)};
}

}  // namespace ds::llama_like

namespace ds {

template <class Config>
ModelDimensions LlamaLike<Config>::dimensions(const Config& c) {
  return llama_like::dimensions(c);
}

template <class Config>
void LlamaLike<Config>::set_dimensions(Config& c, const ModelDimensions& dims) {
  llama_like::set_dimensions(c, dims);
}

template <class Config>
std::vector<SizeConflict> LlamaLike<Config>::size_conflicts(const Config& c) {
  return llama_like::size_conflicts(c);
}

}  // namespace ds
