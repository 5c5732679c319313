#include "config/explain/models_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <vector>

#include "config/families/list.h"
#include "config/reader/fields.h"

namespace ds {
namespace {

constexpr std::string_view kModelsPage = R"(# Models

<!-- Made from what the families in config/families say of themselves. Do not edit. -->

These families are trained, from `model.family` in `train.json` or from a Hugging Face folder whose
`config.json` names the class; [using-a-model.md](using-a-model.md) says what a folder may hold.
Those that see both sides of a token are trained to tell masked ones (`data.masked_lm`); from the
others `generate` draws text, and `eval` tells their perplexity. All of them train in fp32, bf16 and
fp16, at ZeRO 0 to 3 with and without offload, and are cut by tensor ranks (where a row does not say
otherwise), stages, Ulysses and rings; `final/` is a folder that transformers loads.
[config.md](config.md) has their keys.

Families with *classes of texts* or *of tokens* also score which of several classes a text, or each
of its tokens, is of ([data.md](data.md)): in a folder of a class such as
`BertForSequenceClassification` or `BertForTokenClassification`, or by a head that begins anew,
where `model.labels` names the classes and `model.task` says whose they are. Scores of texts may
also be numbers that a text has, or be of classes that hold each by itself (`model.problem_type`).

What a family has by default stands first, and what its keys can turn on besides stands in brackets.
*Scaled* positions are those of `rope_scaling`. Keys that change results and are not known are
refused by name.

)";

// The keys of a family, sections among them.
class Keys final : public Visitor {
 public:
  void on_field(const Field& field) override { keys_.insert(std::string(field.key)); }
  void on_section(const Section& section) override { keys_.insert(std::string(section.key)); }
  void on_collection(const Collection& collection) override {
    keys_.insert(std::string(collection.key));
  }
  bool has(const std::string& key) const { return keys_.contains(key); }

 private:
  std::set<std::string> keys_;
};

using Words = std::vector<std::string>;

std::string positions_of(const TransformerSpec& spec, const Keys& keys) {
  if (!spec.rotary) return "learned";
  Words words{"rotary"};
  if (spec.rotary->share < 1) words.push_back(fmt::format("{:g} of a head", spec.rotary->share));
  if (spec.rotary->share == 1 && keys.has("partial_rotary_factor"))
    words.push_back("(part of a head)");
  if (spec.unrotated.every > 0) {
    words.push_back(fmt::format("none in 1 layer of {}", spec.unrotated.every));
  }
  if (spec.window_rotary) words.push_back("others in layers with a window");
  if (keys.has("rope_scaling")) words.push_back("(scaled)");
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string attention_of(const TransformerSpec& spec, const Keys& keys) {
  Words words;
  if (spec.attention_kind == AttentionKind::kBidirectional) words.emplace_back("both sides");
  if (keys.has("num_key_value_heads")) words.emplace_back("grouped heads");
  if (spec.window) {
    const int64_t every = spec.window->full_every;
    words.push_back(every > 0 ? fmt::format("window, but for 1 layer of {}", every) : "window");
  } else if (keys.has("sliding_window")) {
    words.emplace_back("(window)");
  }
  if (keys.has("layer_types")) words.emplace_back("(layer by layer)");
  if (spec.head_norms) {
    const bool over_all = spec.head_norms->extent == HeadNorms::Extent::kAllHeads;
    words.emplace_back(over_all ? "norms of queries and keys over all heads"
                                : "norms of queries and keys");
  } else if (keys.has("qk_layernorm")) {
    words.emplace_back("(norms of queries and keys)");
  }
  if (spec.scores.softcap > 0) words.emplace_back("cap of scores");
  if (spec.scores.scale > 0 || keys.has("query_pre_attn_scalar")) words.emplace_back("own scale");
  if (keys.has("scale_attn_by_inverse_layer_idx")) words.emplace_back("(scale by layer)");
  if (spec.attention.in.front().has_bias) {
    words.emplace_back(spec.attention.out.has_bias ? "biases" : "biases but of the output");
  } else if (keys.has("attention_bias") || keys.has("use_qkv_bias")) {
    words.emplace_back("(biases)");
  }
  return words.empty() ? "plain" : fmt::format("{}", fmt::join(words, ", "));
}

std::string norms_of(const TransformerSpec& spec, const Keys& keys) {
  constexpr std::string_view kKinds[] = {"layer", "layer without biases", "RMS", "RMS, 1 + w"};
  std::string text(kKinds[static_cast<size_t>(spec.norms.kind)]);
  const bool before = !spec.names.attention_norm.empty();
  if (!spec.names.attention_out_norm.empty())
    text += before ? ", also behind branches" : ", behind branches";
  if (!spec.names.attention_sum_norm.empty()) text += ", of sums";
  if (!spec.names.table_norm.empty()) text += ", of the embedding";
  if (keys.has("do_layer_norm_before")) text += ", (of sums)";
  return text;
}

std::string mlp_of(const TransformerSpec& spec, const Keys& keys) {
  std::string text = spec.activation + (spec.has_gate ? " gate" : "");
  if (spec.mlp_input == MlpInput::kBesideAttention) {
    text += ", beside attention";
  } else if (keys.has("use_parallel_residual")) {
    text += ", (beside attention)";
  }
  if (spec.mlp.out.has_bias) text += ", biases";
  if (!spec.mlp.out.has_bias && keys.has("mlp_bias")) text += ", (biases)";
  if (!spec.experts) return text;
  text += keys.has("decoder_sparse_step") ? ", (some layers) experts" : ", experts";
  if (spec.experts->shared) text += " and one of all tokens";
  return text;
}

std::string others_of(const TransformerSpec& spec, const Keys& keys, bool ties) {
  Words words{ties ? "tied head" : "head of its own"};
  if (spec.factors.embedding != 1 || keys.has("embedding_multiplier")) {
    words.emplace_back(keys.has("embedding_multiplier") ? "four factors" : "factor of embeddings");
  }
  if (keys.has("word_embed_proj_dim")) words.emplace_back("(a table of another width)");
  if (spec.tables.segments > 0) words.emplace_back("segments");
  if (spec.head.transform) words.emplace_back("a layer before the head");
  if (spec.head.logits_softcap > 0) words.emplace_back("cap of logits");
  for (const BranchSpec* const branch : {&spec.attention, &spec.mlp}) {
    if (branch->joined) words.push_back(fmt::format("folders join `{}`", branch->joined->name));
  }
  if (spec.classifiers.texts) {
    words.emplace_back(keys.has("classifier_pooling")
                           ? "classes of texts, by their first token or (the mean of all)"
                           : "classes of texts");
  }
  if (spec.classifiers.tokens) words.emplace_back("of tokens");
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::string models_page() {
  std::string page(kModelsPage);
  page +=
      "| family | class | positions | attention | norms | MLP | else "
      "|\n|---|---|---|---|---|---|---|\n";
  const auto add = [&]<class Config>(Config config) {
    Keys keys;
    fields(keys, config);
    const TransformerSpec spec = Family<Config>::transformer(config);
    page += fmt::format("| `{}` | `{}` | {} | {} | {} | {} | {} |\n", Family<Config>::kName,
                        Family<Config>::kClasses.model, positions_of(spec, keys),
                        attention_of(spec, keys), norms_of(spec, keys), mlp_of(spec, keys),
                        others_of(spec, keys, config.tie_word_embeddings));
  };
  std::apply([&](const auto&... config) { (add(config), ...); }, FamilyConfigs{});
  return page;
}

}  // namespace ds
