#include "config/families/qwen2.h"

#include "config/families/hf_object.h"
#include "config/families/llama_like.h"
#include "core/error.h"

namespace ds {
namespace {

// Layers from max_window_layers on see a window, if there are any.
std::optional<int64_t> window_of(const Qwen2Config& c) {
  if (!c.use_sliding_window || c.max_window_layers >= c.num_hidden_layers) return std::nullopt;
  return c.sliding_window;
}

// Newer files say of each layer what it sees, and that counts.
void read_layer_types(const HfObject& object, Qwen2Config& c) {
  const rapidjson::Value* const types = object.find("layer_types");
  if (types == nullptr) return;
  if (!types->IsArray()) {
    throw DataError(fmt::format("{}: \"layer_types\" must be a list", object.path()));
  }
  bool has_window = false;
  for (const rapidjson::Value& type : types->GetArray()) {
    const std::string_view name = type.IsString() ? text_of(type) : "";
    const bool slides = name == "sliding_attention" && window_of(c).has_value();
    has_window = has_window || slides;
    if (name == "full_attention" || slides) continue;
    object.refuse(fmt::format("\"{}\" among \"layer_types\"", name));
  }
  if (!has_window) c.use_sliding_window = false;
}

}  // namespace

void fields(Visitor& v, Qwen2Config& c) { llama_like::fields(v, c); }

ModelDimensions Family<Qwen2Config>::dimensions(const Qwen2Config& c) {
  return llama_like::dimensions(c, window_of(c));
}

void Family<Qwen2Config>::set_dimensions(Qwen2Config& c, const ModelDimensions& dims) {
  llama_like::set_dimensions(c, dims);
  c.use_sliding_window = false;  // whose end the positions have; it would depend on the layers
}

std::vector<SizeConflict> Family<Qwen2Config>::size_conflicts(const Qwen2Config& c) {
  return llama_like::size_conflicts(c);
}

DecoderSpec Family<Qwen2Config>::decoder(const Qwen2Config& c) {
  return llama_like::decoder(c, {.queries_keys_values = true});
}

void Family<Qwen2Config>::read_rest(const HfObject& object, Qwen2Config& c) {
  llama_like::read_rotary(object, c.rope_theta);
  const auto head_dim = object.number("head_dim");
  const int64_t derived = c.num_attention_heads > 0 ? c.hidden_size / c.num_attention_heads : 0;
  if (head_dim && derived > 0 && *head_dim != static_cast<double>(derived)) {
    object.refuse("\"head_dim\" other than hidden_size / num_attention_heads");
  }
  read_layer_types(object, c);
}

}  // namespace ds
