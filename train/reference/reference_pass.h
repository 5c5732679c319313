// The pass of a reference model over samples that are pairs of texts, before training: what it says
// of them is kept, and the model itself is not.
#pragma once

#include <functional>
#include <span>

#include "data/tokens/dataset.h"
#include "train/batches/reference_scores.h"
#include "train/batches/sample_part.h"
#include "train/engine.h"

namespace ds {

struct ReferencePass {
  const SampleSet& samples;         // of open_preferences()
  std::span<const int64_t> wanted;  // which of them; the same on all ranks
  SamplePlace place{};
};
// Collective: scores of the wanted samples by the weights that the engine has now, which every rank
// gets. `on_batch` hears how many batches of how many are done. ValidationError on all ranks alike,
// naming the sample, for one that is not finite.
void score_references(Engine& engine, const ReferencePass& pass, ReferenceScores& scores,
                      const std::function<void(int64_t done, int64_t of)>& on_batch);

}  // namespace ds
