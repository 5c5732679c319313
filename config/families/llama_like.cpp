#include "config/families/llama_like.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "config/families/hf_object.h"
#include "core/error.h"

namespace ds {
namespace {

std::string type_of(const HfObject& rope) {
  for (const char* const key : {"rope_type", "type"}) {
    const rapidjson::Value* const name = rope.find(key);
    if (name != nullptr) return name->IsString() ? std::string(text_of(*name)) : "no text";
  }
  return "default";
}

// Keys that say something to a type.
std::vector<std::string_view> keys_of(std::string_view type) {
  if (type == "linear" || type == "dynamic") return {"factor"};
  if (type == "llama3") {
    return {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
  }
  if (type == "yarn") {
    return {"factor", "beta_fast", "beta_slow", "attention_factor",
            "original_max_position_embeddings"};
  }
  return {};
}

// Refuses keys of other types, too: nobody has written them for nothing.
void check_keys(const HfObject& rope, std::string_view key, std::string_view type) {
  std::vector<std::string_view> known = keys_of(type);
  known.insert(known.end(), {"rope_type", "type", "rope_theta", "partial_rotary_factor"});
  for (const std::string_view name : rope.keys()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    rope.refuse(fmt::format("\"{}\" in a \"{}\" of type \"{}\"", name, key, type));
  }
}

std::optional<RopeScaling> scaling_of(const HfObject& object, std::string_view key) {
  const std::optional<HfObject> rope = object.object(key);
  if (!rope) return std::nullopt;
  RopeScaling c{.rope_type = type_of(*rope)};
  if (c.rope_type != "default" && keys_of(c.rope_type).empty()) {
    object.refuse(fmt::format("a \"{}\" of type \"{}\"", key, c.rope_type));
  }
  check_keys(*rope, key, c.rope_type);
  if (rope->number("partial_rotary_factor").value_or(1) != 1) {
    object.refuse("\"partial_rotary_factor\" other than 1");
  }
  if (c.rope_type == "default") return std::nullopt;
  const bool needs_all = c.rope_type == "llama3";
  for (const std::string_view needed : keys_of(c.rope_type)) {
    if (rope->find(needed) != nullptr || (!needs_all && needed != "factor")) continue;
    throw DataError(fmt::format("{}: a \"{}\" of type \"{}\" has no \"{}\"", object.path(), key,
                                c.rope_type, needed));
  }
  c.factor = rope->number("factor").value_or(c.factor);
  c.low_freq_factor = rope->number("low_freq_factor").value_or(c.low_freq_factor);
  c.high_freq_factor = rope->number("high_freq_factor").value_or(c.high_freq_factor);
  c.beta_fast = rope->number("beta_fast").value_or(c.beta_fast);
  c.beta_slow = rope->number("beta_slow").value_or(c.beta_slow);
  c.attention_factor = rope->number("attention_factor");
  if (const auto original = rope->number("original_max_position_embeddings")) {
    c.original_max_position_embeddings = static_cast<int64_t>(*original);
  }
  return c;
}

}  // namespace

void llama_like::read_rotary(const HfObject& object, double& rope_theta,
                             std::optional<RopeScaling>& rope_scaling) {
  const double rotary_factor = object.number("partial_rotary_factor").value_or(1);
  if (rotary_factor != 1) {
    object.refuse(fmt::format("\"partial_rotary_factor\" = {}", rotary_factor));
  }
  // Newer files say it under the second name, and that counts if both are there.
  rope_scaling = scaling_of(object, "rope_scaling");
  const std::optional<HfObject> rope = object.object("rope_parameters");
  if (rope) rope_scaling = scaling_of(object, "rope_parameters");
  const auto theta = rope ? rope->number("rope_theta") : std::nullopt;
  if (!theta) return;
  if (object.find("rope_theta") != nullptr && rope_theta != *theta) {
    throw DataError(
        fmt::format("{}: \"rope_theta\" is {}, but that of \"rope_parameters\" is {}; remove one",
                    object.path(), rope_theta, *theta));
  }
  rope_theta = *theta;
}

void llama_like::read_layer_types(const HfObject& object, const WindowedLayers& model,
                                  int64_t& max_window_layers) {
  const rapidjson::Value* const types = object.find("layer_types");
  if (types == nullptr) return;
  if (!types->IsArray()) {
    throw DataError(fmt::format("{}: \"layer_types\" must be a list", object.path()));
  }
  int64_t full = 0, sliding = 0;
  for (const rapidjson::Value& type : types->GetArray()) {
    const std::string_view name = type.IsString() ? text_of(type) : "";
    const bool slides = name == "sliding_attention" && model.may_slide;
    if (!slides && name != "full_attention") {
      object.refuse(fmt::format("\"{}\" among \"layer_types\"", name));
    }
    if (!slides && sliding > 0) {
      object.refuse("\"full_attention\" behind \"sliding_attention\" among \"layer_types\"");
    }
    ++(slides ? sliding : full);
  }
  if (full + sliding != model.layers) {
    throw DataError(fmt::format("{}: {} \"layer_types\" for {} layers", object.path(),
                                full + sliding, model.layers));
  }
  max_window_layers = sliding > 0 ? full : std::max(max_window_layers, full);
}

}  // namespace ds
