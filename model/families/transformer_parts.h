// The parts of a stage of a transformer: of its embedding, its blocks and its head, those of the
// layers that are here.
#pragma once

#include "model/modules/module.h"
#include "model/modules/stage.h"

namespace ds {

// Parameters of other layers are not added; see make_stage() in zoo.h.
Stage::Parts transformer_parts(const ModelConfig& config, const BuildContext& root,
                               LayerRange layers);

}  // namespace ds
