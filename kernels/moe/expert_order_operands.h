// What expert_order is told, and what its halves are.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

// In which order an expert is given its choices: token by token, or the first choices of all tokens
// before the second ones.
enum class ChoiceOrder : uint8_t { kByToken, kByChoice };

// Choices are numbered n * k + j: choice j of token n.
struct ExpertOrder {
  Tensor counts;   // int32 [experts]
  Tensor offsets;  // int32 [experts + 1]: those of expert e are places offsets[e] .. offsets[e + 1]
  Tensor order;    // int32 [N * k]: which choice has a place; -1 behind the last one
  Tensor place;    // int32 [N * k]: the place of a choice; -1 where it was dropped
};

struct CountedChoices {
  int64_t choices = 1;  // of a token: k
  int64_t counted = 1;
};

namespace detail {

// The first `counted` choices of all tokens, one after the other.
struct ChoiceWalk {
  int64_t tokens = 0, choices = 1, counted = 1;
  ChoiceOrder by = ChoiceOrder::kByToken;
  int64_t experts = 0;

  constexpr int64_t length() const { return tokens * counted; }
  // The number of the choice that comes at `step`.
  constexpr int64_t choice_at(int64_t step) const {
    return by == ChoiceOrder::kByToken ? step / counted * choices + step % counted
                                       : step % tokens * choices + step / tokens;
  }
};

}  // namespace detail
}  // namespace ds::kernels
