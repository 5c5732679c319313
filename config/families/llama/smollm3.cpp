#include "config/families/llama/smollm3.h"

#include <algorithm>

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"
#include "config/families/spec/layer_types.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

// A list that says of each layer whether it turns counts more than the interval.
void read_layers(const HfObject& object, SmolLM3Config& c) {
  const rapidjson::Value* const layers = object.list("no_rope_layers");
  c.no_rope_layers.reset();
  if (layers == nullptr) return;
  std::vector<bool> turns;
  for (const rapidjson::Value& layer : layers->GetArray()) {
    if (!layer.IsInt() || layer.GetInt() < 0 || layer.GetInt() > 1) {
      throw DataError(
          fmt::format("{}: \"no_rope_layers\" has something else than 1 for layers with "
                      "rotary positions and 0 for those without",
                      object.path()));
    }
    turns.push_back(layer.GetInt() == 1);
  }
  if (turns.size() < to_size(c.num_hidden_layers)) {
    throw DataError(fmt::format("{}: {} \"no_rope_layers\" for {} layers", object.path(),
                                turns.size(), c.num_hidden_layers));
  }
  turns.resize(to_size(c.num_hidden_layers));
  const auto first = std::ranges::find(turns, false);
  const int64_t interval = first - turns.begin() + 1;  // beyond the last where all turn
  const UnrotatedLayers even{.every = interval};
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i] != even.is_of(narrow<int64_t>(i))) continue;
    c.no_rope_layers.emplace(turns.begin(), turns.end());
    return;
  }
  c.no_rope_layer_interval = interval;
}

}  // namespace

void fields(Visitor& v, SmolLM3Config& c) {
  llama_like::fields(v, c);
  v.field("no_rope_layer_interval", c.no_rope_layer_interval,
          {.meaning = "Every so many-th layer has no rotary positions.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostLayers + 1});
  v.field("no_rope_layers", c.no_rope_layers,
          {.meaning = "Of each layer, 1 if it has rotary positions and 0 if it has none.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = 1,
           .omit_unset = true,
           .unset_meaning = "as no_rope_layer_interval says"});
}

template struct LlamaLike<SmolLM3Config>;

TransformerSpec Family<SmolLM3Config>::transformer(const SmolLM3Config& c) {
  TransformerSpec spec = llama_like::transformer(c, {.queries_keys_values = c.attention_bias,
                                                     .attention_out = c.attention_bias,
                                                     .mlp = c.mlp_bias});
  spec.unrotated.every = c.no_rope_layer_interval;
  for (const int64_t turns : c.no_rope_layers.value_or(std::vector<int64_t>())) {
    spec.unrotated.layers.push_back(turns == 0);
  }
  return spec;
}

void Family<SmolLM3Config>::set_dimensions(SmolLM3Config& c, const ModelDimensions& dims) {
  LlamaLike::set_dimensions(c, dims);
  resize_layers(c.no_rope_layers, dims.layers);
}

std::vector<SizeConflict> Family<SmolLM3Config>::size_conflicts(const SmolLM3Config& c) {
  std::vector<SizeConflict> found = LlamaLike::size_conflicts(c);
  if (c.no_rope_layers && std::ssize(*c.no_rope_layers) != c.num_hidden_layers) {
    found.push_back({"no_rope_layers", fmt::format("{} numbers for {} layers",
                                                   c.no_rope_layers->size(), c.num_hidden_layers)});
  }
  return found;
}

void Family<SmolLM3Config>::read_rest(const HfObject& object, SmolLM3Config& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
  read_layers(object, c);
  object.refuse_unless("use_sliding_window", false);
  read_layer_types(object, c.num_hidden_layers, false);
}

}  // namespace ds
