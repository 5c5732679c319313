#include "config/families/llama.h"

#include "config/families/hf_object.h"
#include "config/families/llama_like.h"
#include "core/error.h"

namespace ds {
namespace {

// "rope_scaling" (transformers 4) and "rope_parameters" (5) are built only where they change
// nothing.
void refuse_scaling(const HfObject& object) {
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<HfObject> rope = object.object(key);
    if (!rope) continue;
    for (const char* const type : {"rope_type", "type"}) {
      const rapidjson::Value* const name = rope->find(type);
      if (name == nullptr || (name->IsString() && text_of(*name) == "default")) continue;
      object.refuse(fmt::format("\"{}\" with a \"{}\" other than \"default\"", key, type));
    }
    if (rope->find("factor") != nullptr) object.refuse(fmt::format("\"{}\" with a factor", key));
  }
}

}  // namespace

void llama_like::read_rotary(const HfObject& object, double& rope_theta) {
  refuse_scaling(object);
  const double rotary_factor = object.number("partial_rotary_factor").value_or(1);
  if (rotary_factor != 1) {
    object.refuse(fmt::format("\"partial_rotary_factor\" = {}", rotary_factor));
  }
  const std::optional<HfObject> rope = object.object("rope_parameters");
  const auto theta = rope ? rope->number("rope_theta") : std::nullopt;
  if (!theta) return;
  if (object.find("rope_theta") != nullptr && rope_theta != *theta) {
    throw DataError(
        fmt::format("{}: \"rope_theta\" is {}, but that of \"rope_parameters\" is {}; remove one",
                    object.path(), rope_theta, *theta));
  }
  rope_theta = *theta;
}

void fields(Visitor& v, LlamaConfig& c) { llama_like::fields(v, c); }

ModelDimensions Family<LlamaConfig>::dimensions(const LlamaConfig& c) {
  return llama_like::dimensions(c);
}

void Family<LlamaConfig>::set_dimensions(LlamaConfig& c, const ModelDimensions& dims) {
  llama_like::set_dimensions(c, dims);
}

std::vector<SizeConflict> Family<LlamaConfig>::size_conflicts(const LlamaConfig& c) {
  return llama_like::size_conflicts(c);
}

DecoderSpec Family<LlamaConfig>::decoder(const LlamaConfig& c) {
  return llama_like::decoder(c, {.queries_keys_values = c.attention_bias,
                                 .attention_out = c.attention_bias,
                                 .mlp = c.mlp_bias});
}

void Family<LlamaConfig>::read_rest(const HfObject& object, LlamaConfig& c) {
  llama_like::read_rotary(object, c.rope_theta);
}

}  // namespace ds
