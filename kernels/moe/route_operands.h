// What routers are told: rules and operands of kernels/moe/route.h, for the front and both halves.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/write.h"

namespace ds::kernels {

inline constexpr int64_t kMostExperts = 1024;
inline constexpr int64_t kMostChoices = 32;

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };
// What a group of experts is ranked by: its best expert, or the sum of the best two.
enum class GroupScore : uint8_t { kLargest, kSumOfTwo };
// What the weights of a token's choices sum to, before they are scaled. kOne is also the softmax
// over the chosen logits alone, where scores are the softmax over all: the rest cancels out.
enum class WeightSum : uint8_t {
  kAsIs,            // weights are the scores
  kOne,             // divided by their sum
  kOneWithEpsilon,  // by their sum + 1e-20
  kOneClamped,      // by their sum, or by the epsilon of fp32 where that is more
};

struct RouteRule {
  int64_t experts = 0;
  int64_t choices = 1;  // of a token: k
  RouterScore score = RouterScore::kSoftmax;
  // Experts lie in groups of equal size, one after the other; those outside of a token's
  // `limited_groups` best groups are left out.
  int64_t groups = 1;
  int64_t limited_groups = 1;
  GroupScore group_score = GroupScore::kLargest;
  WeightSum weight_sum = WeightSum::kAsIs;
  float scale = 1.0F;
};

struct RouteArgs {
  RouteRule rule;
  Tensor logits;       // fp32 [N, experts]
  Tensor bias = {};    // fp32 [experts], or undefined: added to scores for the choice only
  Tensor used = {};    // u8 [N], or undefined: 0 for tokens that do not take part
  Tensor experts;      // receives, int32 [N, k]; -1 where the token does not take part
  Tensor weights;      // receives, fp32 [N, k]; 0 there
  Tensor scores = {};  // receives, fp32 [N, experts], of all tokens; or undefined
};

struct RouteBackwardArgs {
  RouteRule rule;
  Tensor scores;        // fp32 [N, experts], as route() made them
  Tensor experts;       // int32 [N, k], as the weights were made of
  Tensor dweights;      // fp32 [N, k]; of choices that were dropped nothing is read
  Tensor dscores = {};  // fp32 [N, experts], or undefined: of losses on the scores
  Tensor dlogits;       // receives, or has added, fp32 [N, experts]; overwritten, it may be dscores
  Write write = Write::kOverwrite;
};

}  // namespace ds::kernels
