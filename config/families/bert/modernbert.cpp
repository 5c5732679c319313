#include "config/families/bert/modernbert.h"

#include <algorithm>
#include <cmath>

#include "config/families/llama/llama_like.h"
#include "config/families/spec/activations.h"
#include "config/families/spec/hf_object.h"
#include "config/families/spec/plain_sizes.h"
#include "core/values/index.h"

namespace ds {
namespace {

// layer_types of newer files say of each layer what it sees, and that counts.
void read_layers(const HfObject& object, ModernBertConfig& c) {
  c.layer_types = read_layer_types(object, c.num_hidden_layers);
  if (!c.layer_types) return;
  const std::vector<bool> full = full_layers(c.layer_types);
  int64_t every = 1;
  while (every < std::ssize(full) && !nth(full, every)) ++every;
  // One full layer alone says no more than that there is none up to there.
  if (every == std::ssize(full)) every = std::max(every, c.global_attn_every_n_layers);
  if (!is_window_of({.full_every = every, .first_full = 0}, c.layer_types)) return;
  c.global_attn_every_n_layers = every;
  c.layer_types.reset();
}

// Every head has this layer before it. ModernBertPreTrainedModel._init_weights has what it begins
// with, and what the scores of classes do.
HeadTransform prediction_head(const ModernBertConfig& c) {
  const auto layers = static_cast<double>(c.num_hidden_layers);
  return {.linear = "head.dense",
          .norm = "head.norm",
          .activation = c.classifier_activation,
          .has_bias = c.classifier_bias,
          .deviation = c.initializer_range / std::sqrt(2 * layers)};
}

// Texts and tokens are scored by the same modules.
ClassifierSpec classifier(const ModernBertConfig& c, ScoredRow row) {
  return {.transform = prediction_head(c),
          .scores = "classifier",
          .deviation = 1 / std::sqrt(static_cast<double>(c.hidden_size)),
          .dropout = 0.0,
          .row = row};
}

void size_fields(Visitor& v, ModernBertConfig& c) {
  plain_sizes::fields(v, c);
  plain_sizes::vocabulary_field(v, c);
  plain_sizes::size_field(
      v, "local_attention", c.local_attention,
      "Keys that a query of a layer with a window sees: half of them on either side.",
      kMostPositions);
  plain_sizes::size_field(
      v, "global_attn_every_n_layers", c.global_attn_every_n_layers,
      "The first of every so many layers sees all keys, the others a window of them.", kMostLayers);
  layer_types_field(v, c.layer_types, "as global_attn_every_n_layers says");
}

void kind_fields(Visitor& v, ModernBertConfig& c) {
  for (const auto& [key, slot, meaning] :
       std::initializer_list<std::tuple<const char*, std::string&, const char*>>{
           {"hidden_activation", c.hidden_activation, "Activation behind the gate of the MLP."},
           {"classifier_activation", c.classifier_activation,
            "Activation of the layer before the head."}}) {
    v.field(key, slot,
            {.meaning = meaning, .effect = Effect::kUsed, .only = encoder_activations()});
  }
  v.field("classifier_pooling", c.classifier_pooling,
          {.meaning = "What a head that scores texts reads: the first token, or the mean of all.",
           .effect = Effect::kUsed,
           .only = {"cls", "mean"}});
  for (const auto& [key, slot, meaning] :
       std::initializer_list<std::tuple<const char*, bool&, const char*>>{
           {"norm_bias", c.norm_bias, "Norms have biases."},
           {"attention_bias", c.attention_bias, "Projections of attention have biases."},
           {"mlp_bias", c.mlp_bias, "Projections of the MLP have biases."},
           {"classifier_bias", c.classifier_bias, "The layer before the head has a bias."},
           {"decoder_bias", c.decoder_bias, "Logits have a bias."}}) {
    v.field(key, slot, {.meaning = meaning, .effect = Effect::kUsed});
  }
}

}  // namespace

void fields(Visitor& v, ModernBertConfig& c) {
  size_fields(v, c);
  kind_fields(v, c);
  for (const auto& [key, slot, meaning] :
       std::initializer_list<std::tuple<const char*, double&, const char*>>{
           {"global_rope_theta", c.global_rope_theta, "Base of the rotary frequencies."},
           {"local_rope_theta", c.local_rope_theta,
            "Base of the rotary frequencies of layers with a window."},
           {"norm_eps", c.norm_eps, "Epsilon of the layer norms."},
           {"initializer_range", c.initializer_range, "Standard deviation of initial weights."}}) {
    v.field(key, slot, {.meaning = meaning, .effect = Effect::kUsed, .above = 0});
  }
  llama_like::dropout_field(v, "embedding_dropout", c.embedding_dropout,
                            "Dropout after the embedding.");
  llama_like::dropout_field(v, "attention_dropout", c.attention_dropout,
                            "Dropout on attention weights, and of what attention gives.");
}

ModelDimensions Family<ModernBertConfig>::dimensions(const ModernBertConfig& c) {
  return plain_sizes::dimensions(c);
}

void Family<ModernBertConfig>::set_dimensions(ModernBertConfig& c, const ModelDimensions& dims) {
  plain_sizes::set_dimensions(c, dims);
}

std::vector<SizeConflict> Family<ModernBertConfig>::size_conflicts(const ModernBertConfig& c) {
  std::vector<SizeConflict> found = plain_sizes::size_conflicts(c);
  const int64_t head_dim = dimensions(c).head_dim;
  if (found.empty() && head_dim % 2 != 0) {
    found.push_back({"num_attention_heads",
                     fmt::format("heads of {} elements, which turn in pairs", head_dim)});
  }
  return found;
}

TransformerSpec Family<ModernBertConfig>::transformer(const ModernBertConfig& c) {
  const bool qkv = c.attention_bias, mlp = c.mlp_bias;
  const ScoredRow texts = c.classifier_pooling == "mean" ? ScoredRow::kMean : ScoredRow::kFirst;
  return {.names = {.body = "model",
                    .blocks = "layers",
                    .table = "embeddings.tok_embeddings",
                    .table_norm = "embeddings.norm",
                    .last_norm = "final_norm",
                    .head = "decoder",
                    .attention = "attn",
                    .mlp = "mlp",
                    .attention_norm = "attn_norm",
                    .mlp_norm = "mlp_norm"},
          .norms = {.kind = c.norm_bias ? NormKind::kLayer : NormKind::kLayerUnbiased,
                    .eps = c.norm_eps,
                    .skips_first = true},
          .attention = {.in = {{"Wq", qkv}, {"Wk", qkv}, {"Wv", qkv}},
                        .out = {"Wo", qkv},
                        .joined = JoinedProjections{.name = "Wqkv"}},
          .mlp = {.in = {{"Wi_gate", mlp}, {"Wi_up", mlp}},
                  .out = {"Wo", mlp},
                  .joined = JoinedProjections{.name = "Wi"}},
          .activation = c.hidden_activation,
          .rotary = RotarySpec{.theta = c.global_rope_theta},
          .window_rotary = RotarySpec{.theta = c.local_rope_theta},
          .head = {.transform = prediction_head(c), .bias = c.decoder_bias ? "decoder" : ""},
          .classifiers = {.texts = classifier(c, texts), .tokens = classifier(c, ScoredRow::kEach)},
          .attention_kind = AttentionKind::kBidirectional,
          .window = SlidingWindow{.keys = c.local_attention / 2 + 1,
                                  .full_every = c.global_attn_every_n_layers,
                                  .first_full = 0,
                                  .full_layers = full_layers(c.layer_types)},
          .initializer_range = c.initializer_range,
          .scales_branches = true,
          .embedding_dropout = c.embedding_dropout,
          .attention_out_dropout = c.attention_dropout,
          .dropout_places = 3};
}

void Family<ModernBertConfig>::read_rest(const HfObject& object, ModernBertConfig& c) {
  std::optional<RopeScaling> scaling;
  if (object.object("rope_scaling")) object.refuse("a \"rope_scaling\" of a ModernBERT");
  if (object.is_null("local_rope_theta")) c.local_rope_theta = c.global_rope_theta;
  if (object.object("rope_parameters")) {
    llama_like::read_rotary_of_layers(
        object, {.theta = {"global_rope_theta", c.global_rope_theta}, .scaling = scaling},
        {"local_rope_theta", c.local_rope_theta});
  }
  if (scaling) object.refuse("scaled rotary positions of a ModernBERT");
  if (object.number("mlp_dropout").value_or(0) != 0) {
    object.refuse("an \"mlp_dropout\" other than 0");
  }
  object.refuse_unless("tie_word_embeddings", true);
  // transformers takes it for half of local_attention, whatever that says.
  const auto half = object.number("sliding_window");
  if (half && 2 * *half != static_cast<double>(c.local_attention)) {
    object.refuse("a \"sliding_window\" other than half of \"local_attention\"");
  }
  read_layers(object, c);
}

}  // namespace ds
