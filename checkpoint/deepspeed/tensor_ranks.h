// What the tensor-parallel ranks of a DeepSpeed checkpoint saved, as one table: each of them knows
// of its own part of each tensor, under the same name.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "checkpoint/cuts/tensor_join.h"
#include "checkpoint/deepspeed/pipeline_table.h"
#include "checkpoint/deepspeed/saved_tensors.h"

namespace ds::deepspeed {

// How a tensor is made of the ranks' parts, whose shapes these are. Throws as join_of() does.
using JoinOf = std::function<TensorJoin(const std::string& name, std::span<const Extents> shapes)>;

// `ranks`: in order, all of them; shared, for tensors stay as each has them. InputMissing where the
// files say that there are more; DataError naming the file and the tensor where the ranks are of
// several checkpoints, have other names, or have what cannot be joined.
SavedTable joined_ranks(std::span<const ModelPart> ranks, const JoinOf& join);

// InputMissing where a part says that there are more. `of_stage`: tensor-parallel ranks of each
// stage of a pipeline; 0 without one.
void require_all_parts(std::span<const ModelPart> parts, int64_t of_stage);

}  // namespace ds::deepspeed
