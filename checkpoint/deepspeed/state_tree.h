// Nested state of a DeepSpeed checkpoint and its merging over tensor-parallel ranks (pure): tensors
// are joined, everything else must be of one kind and is taken from the first.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ds::deepspeed {

struct StateTree;
using StateTensor = std::vector<double>;  // one dimension
using StateList = std::vector<StateTree>;
using StateMap = std::vector<std::pair<std::string, StateTree>>;  // in file order

struct StateTree {
  std::variant<std::monostate, bool, int64_t, double, std::string, StateTensor, StateList, StateMap>
      value;
};

// Tensors are concatenated, lists merge entry by entry, maps key by key: a key that only `b` has is
// kept, one that only `a` has is dropped, as the reference does. Other leaves come from `a`. Throws
// DataError for two values of different kinds and for lists of different lengths; the message names
// the path.
StateTree merge_states(const StateTree& a, const StateTree& b, const std::string& path = "");

}  // namespace ds::deepspeed
