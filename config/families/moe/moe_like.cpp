#include "config/families/moe/moe_like.h"

#include <cmath>

#include "core/status/error.h"

namespace ds {

void moe_like::refuse_router_words(const HfObject& object) {
  object.refuse_unless("output_router_logits", false);
  const double jitter = object.number("router_jitter_noise").value_or(0);
  if (jitter != 0) object.refuse(fmt::format("\"router_jitter_noise\" = {}", jitter));
  object.number("router_aux_loss_coef");  // of a loss that output_router_logits asks for
}

std::vector<int64_t> moe_like::dense_layers(const HfObject& object) {
  std::vector<int64_t> layers;
  const rapidjson::Value* const list = object.list("mlp_only_layers");
  if (list == nullptr) return layers;
  for (const rapidjson::Value& layer : list->GetArray()) {
    if (!layer.IsInt64() || layer.GetInt64() < 0) {
      throw DataError(fmt::format(
          "{}: \"mlp_only_layers\" has something else than numbers of layers", object.path()));
    }
    layers.push_back(layer.GetInt64());
  }
  return layers;
}

}  // namespace ds
