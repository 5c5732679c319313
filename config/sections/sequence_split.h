// What sequence parallelism asks of a model and its sequences (pure): every rank of a group has as
// many tokens of each sequence, and in attention as many heads.
#pragma once

#include <cstdint>
#include <string>

namespace ds {

struct ModelDimensions;

// Why `ranks` cannot share sequences of `length` tokens of such a model; empty: they can.
std::string sequence_conflict(const ModelDimensions& model, int64_t length, int64_t ranks);

}  // namespace ds
