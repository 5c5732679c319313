#include "config/families/qwen2.h"

#include <algorithm>

#include "config/families/hf_object.h"
#include "config/families/llama_like.h"
#include "core/error.h"

namespace ds {
namespace {

// Newer files say of each layer what it sees, and that counts: layers that see a window follow those
// that see everything.
void read_layer_types(const HfObject& object, Qwen2Config& c) {
  const rapidjson::Value* const types = object.find("layer_types");
  if (types == nullptr) return;
  if (!types->IsArray()) {
    throw DataError(fmt::format("{}: \"layer_types\" must be a list", object.path()));
  }
  const bool may_slide = c.use_sliding_window && c.sliding_window;
  int64_t full = 0, sliding = 0;
  for (const rapidjson::Value& type : types->GetArray()) {
    const std::string_view name = type.IsString() ? text_of(type) : "";
    const bool slides = name == "sliding_attention" && may_slide;
    if (!slides && name != "full_attention") {
      object.refuse(fmt::format("\"{}\" among \"layer_types\"", name));
    }
    if (!slides && sliding > 0) {
      object.refuse("\"full_attention\" behind \"sliding_attention\" among \"layer_types\"");
    }
    ++(slides ? sliding : full);
  }
  if (full + sliding != c.num_hidden_layers) {
    throw DataError(fmt::format("{}: {} \"layer_types\" for {} layers", object.path(),
                                full + sliding, c.num_hidden_layers));
  }
  c.max_window_layers = sliding > 0 ? full : std::max(c.max_window_layers, full);
}

}  // namespace

void fields(Visitor& v, Qwen2Config& c) { llama_like::fields(v, c); }

ModelDimensions Family<Qwen2Config>::dimensions(const Qwen2Config& c) {
  return llama_like::dimensions(c);
}

void Family<Qwen2Config>::set_dimensions(Qwen2Config& c, const ModelDimensions& dims) {
  llama_like::set_dimensions(c, dims);
}

std::vector<SizeConflict> Family<Qwen2Config>::size_conflicts(const Qwen2Config& c) {
  return llama_like::size_conflicts(c);
}

DecoderSpec Family<Qwen2Config>::decoder(const Qwen2Config& c) {
  DecoderSpec spec = llama_like::decoder(c, {.queries_keys_values = true});
  if (c.use_sliding_window && c.sliding_window) {
    spec.window = SlidingWindow{.keys = *c.sliding_window, .first_layer = c.max_window_layers};
  }
  return spec;
}

void Family<Qwen2Config>::read_rest(const HfObject& object, Qwen2Config& c) {
  llama_like::read_rotary(object, c.rope_theta, c.rope_scaling);
  const auto head_dim = object.number("head_dim");
  const int64_t derived = c.num_attention_heads > 0 ? c.hidden_size / c.num_attention_heads : 0;
  if (head_dim && derived > 0 && *head_dim != static_cast<double>(derived)) {
    object.refuse("\"head_dim\" other than hidden_size / num_attention_heads");
  }
  read_layer_types(object, c);
}

}  // namespace ds
