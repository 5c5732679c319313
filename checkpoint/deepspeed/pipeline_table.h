// What a pipeline of DeepSpeed's saved, as one table: each stage knows of its own layers, and each
// layer has a file of its weights.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/deepspeed/saved_tensors.h"

namespace ds::deepspeed {

// What one stage has, or one tensor-parallel rank, and the file of its model, which says how many
// there are.
struct ModelPart {
  SavedTable table;
  const TorchFile* model;
};

// DataError for parts of several checkpoints.
void require_one_run(std::span<const ModelPart> parts);

// `layers`: files named layer_NN-..., whose tensors have names within the layer NN. What no stage
// trains by ZeRO is theirs, as "NN.NAME". Modules that several stages share (tied_modules) are
// those of the first. DataError where they are of several checkpoints.
SavedTable pipeline_table(std::vector<ModelPart> stages, std::span<const TorchFile* const> layers);

}  // namespace ds::deepspeed
