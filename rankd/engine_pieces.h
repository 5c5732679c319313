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
// Rank 0 adds the states that the whole engine has once, and `facts` of the run (rankd/resume_facts.h; empty: none).
void put_pieces(Engine& engine, int rank, const std::string& facts, CheckpointWriter& writer);
// Each region that this rank owns: the tensor's name, the region, and where its elements live.
void for_each_piece(Engine& engine, const std::function<void(const std::string& name, const ParamSpec& spec,
                                                             const Region& region, Tensor& data)>& take);
// The ranks that saved what this rank owns.
std::set<int> ranks_needed(Engine& engine, const CheckpointReader& reader);
// Why the checkpoint is of another model or optimizer, in words that begin with `label`; empty: it is not. The same
// on all ranks.
std::string why_another(Engine& engine, const CheckpointReader& reader, const std::string& label);
// Fills what this rank owns. ValidationError if something is missing or corrupt.
void restore_pieces(Engine& engine, CheckpointReader& reader, const std::string& label);

// Zeros in the optimizer state that this rank owns: that of an optimizer that has made no step.
void clear_slots(Engine& engine);

}  // namespace ds
