#include "train/settings/batch_content.h"

#include "config/families/list.h"
#include "config/families/spec/transformer_spec.h"
#include "train/settings/preference_settings.h"

namespace ds {

// Padding is kept from being seen; a token that sees those before it alone never sees any.
BatchContent batch_content(const Config& config, const ModelConfig& model) {
  const DataSection& data = config.data;
  if (model.pairs) return {.key_ranges = true, .weights = true};
  if (model.classifier) return {.key_ranges = !is_causal(model), .is_uneven = true};
  // Both texts of a pair share a sample.
  if (data.supervised.has_pairs()) {
    return {.key_ranges = true, .positions = true, .preference = preference_rule(config)};
  }
  if (data.supervised.is_used()) {
    return {.key_ranges = data.supervised.packing,
            .positions = data.supervised.packing,
            .is_uneven = true};
  }
  return {.key_ranges = data.reset_attention_mask,
          .positions = data.reset_position_ids,
          .is_uneven = data.eod_mask_loss || !is_causal(model)};
}

}  // namespace ds
