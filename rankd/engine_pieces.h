// The engine's state as pieces of a checkpoint: what this rank owns, into a writer and out of a reader.
// The same for a tag on disk and a set in memory.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "rankd/engine.h"

namespace ds {

int64_t owned_bytes(Engine& engine);
// Rank 0 adds the states that the whole engine has once.
void put_pieces(Engine& engine, int rank, CheckpointWriter& writer);
// Each region that this rank owns: the tensor's name, the region, and where its elements live.
void for_each_piece(Engine& engine, const std::function<void(const std::string& name, const ParamSpec& spec,
                                                             const Region& region, Tensor& data)>& take);
// The ranks that saved what this rank owns.
std::set<int> ranks_needed(Engine& engine, const CheckpointReader& reader);
// Fills what this rank owns. ValidationError if the checkpoint is of another model or optimizer; `label`
// names it.
void restore_pieces(Engine& engine, CheckpointReader& reader, const std::string& label);

// Zeros in the optimizer state that this rank owns: that of an optimizer that has made no step.
void clear_slots(Engine& engine);

}  // namespace ds
