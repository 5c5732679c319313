#include "config/families/spec/layer_types.h"

#include <fmt/format.h>

#include "config/families/spec/hf_object.h"
#include "config/reader/fields.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";

}  // namespace

void layer_types_field(Visitor& v, LayerTypes& types, std::string_view otherwise) {
  v.field("layer_types", types,
          {.meaning = "What queries of each layer see: `full_attention`, all keys, or "
                      "`sliding_attention`, a window of them.",
           .effect = Effect::kUsed,
           .omit_unset = true,
           .unset_meaning = otherwise});
}

std::vector<bool> full_layers(const LayerTypes& types) {
  std::vector<bool> full;
  if (!types) return full;
  for (const std::string& type : *types) full.push_back(type == kFull);
  return full;
}

void add_layer_type_conflicts(std::vector<SizeConflict>& to, const LayerTypes& types,
                              int64_t layers, bool may_slide) {
  if (!types) return;
  if (std::ssize(*types) != layers) {
    to.push_back({"layer_types", fmt::format("{} types for {} layers", types->size(), layers)});
  }
  for (const std::string& type : *types) {
    if (type == kFull || (type == kSliding && may_slide)) continue;
    to.push_back({"layer_types", fmt::format("\"{}\", expected \"{}\"{}", type, kFull,
                                             may_slide ? " or \"sliding_attention\""
                                                       : " of a model without a window")});
  }
}

LayerTypes read_layer_types(const HfObject& object, int64_t layers, bool may_slide) {
  const rapidjson::Value* const list = object.list("layer_types");
  if (list == nullptr) return std::nullopt;
  std::vector<std::string> types;
  for (const rapidjson::Value& type : list->GetArray()) {
    const std::string_view name = type.IsString() ? text_of(type) : "";
    if (name != kFull && (name != kSliding || !may_slide)) {
      object.refuse(fmt::format("\"{}\" among \"layer_types\"", name));
    }
    types.emplace_back(name);
  }
  if (std::ssize(types) != layers) {
    throw DataError(
        fmt::format("{}: {} \"layer_types\" for {} layers", object.path(), types.size(), layers));
  }
  return types;
}

bool is_window_of(const SlidingWindow& window, const LayerTypes& types) {
  for (size_t layer = 0; types && layer < types->size(); ++layer) {
    if (window.is_of(narrow<int64_t>(layer)) != ((*types)[layer] == kSliding)) return false;
  }
  return true;
}

LayerTypes read_unusual_layer_types(const HfObject& object, int64_t layers,
                                    const SlidingWindow& usual) {
  LayerTypes types = read_layer_types(object, layers);
  if (is_window_of(usual, types)) types.reset();
  return types;
}

}  // namespace ds
