// How the tensors of a model's folder are cut over tensor-parallel ranks, as the families here cut
// them: what joins the ranks' parts of a checkpoint of DeepSpeed's that does not say it itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checkpoint/deepspeed/folder.h"
#include "config/families/list.h"

namespace ds {

// The cuts, by the names of stored tensors. Unsupported where the model cannot be shared by so many
// ranks.
std::map<std::string, deepspeed::FamilyCut> tensor_cuts(const ModelConfig& model, int64_t ranks);

// Joins the parts of a folder that needs it. `names`: those of the files by those of the model.
void join_ranks(deepspeed::DeepSpeedFolder& folder, const ModelConfig& model,
                const std::map<std::string, std::string>& names);

}  // namespace ds
