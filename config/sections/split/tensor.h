// What tensor parallelism asks of a model (pure): every rank of a group has as many heads of
// attention, and something of the vocabulary and of what lies between the products of the MLP.
#pragma once

#include <cstdint>
#include <string>

#include "config/families/list.h"

namespace ds {

struct TensorSplit {
  int64_t ranks = 1;         // that share each layer
  int64_t grain = 1;         // rows of the vocabulary and columns of the MLP that stay together
  int64_t sequence = 1;      // ranks of a sample that exchange the heads of a rank around attention
  bool shares_rows = false;  // of what lies between layers
  bool offloads_state = false;  // of the optimizer
  bool norms_heads = false;     // by weights that all ranks have, each with a part of the gradient
};
// Why a model cannot be split so; empty: it can.
std::string tensor_conflict(const ModelDimensions& model, const TensorSplit& split);
// The same, with what the model's family says of norms_heads.
std::string tensor_conflict(const ModelConfig& model, TensorSplit split);

}  // namespace ds
