// What samples are, and what of them is learnt.
#pragma once

#include <optional>

#include "data/document_rows.h"
#include "data/masked_tokens.h"
#include "train/batches/scored_samples.h"

namespace ds {

struct SampleRules {
  DocumentRules documents{};
  std::optional<MaskingRules> masking{};
  std::optional<ScoredSamples> scored{};  // samples have classes, or values
  bool is_supervised = false;  // they are those of open_supervised() or open_preferences()
  bool has_pairs = false;      // of the latter
};

}  // namespace ds
