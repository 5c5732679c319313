#include "config/families/gemma/gemma_like.h"

#include "config/families/spec/hf_object.h"
#include "core/status/error.h"

namespace ds {

void gemma_like::check_layer_types(const HfObject& object, int64_t layers, int64_t full_every) {
  const rapidjson::Value* const types = object.list("layer_types");
  if (types == nullptr) return;
  if (types->Size() != static_cast<uint64_t>(layers)) {
    throw DataError(
        fmt::format("{}: {} \"layer_types\" for {} layers", object.path(), types->Size(), layers));
  }
  int64_t layer = 0;
  for (const rapidjson::Value& type : types->GetArray()) {
    const std::string_view name = type.IsString() ? text_of(type) : "";
    const bool sees_all = ++layer % full_every == 0;
    if (name == (sees_all ? "full_attention" : "sliding_attention")) continue;
    object.refuse(fmt::format(
        "\"{}\" for layer {} among \"layer_types\", of which every {}th sees all keys and the "
        "others a window,",
        name, layer - 1, full_every));
  }
}

void gemma_like::refuse_others(const HfObject& object) {
  object.refuse_unless("use_bidirectional_attention", false);
  if (object.is_null("sliding_window")) object.refuse("a \"sliding_window\" that is null");
}

}  // namespace ds
