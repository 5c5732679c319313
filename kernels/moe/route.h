// Routing of tokens to experts: scores of all experts in fp32, the k experts of each token, and
// what their results are weighed with. Top-k of the softmax: Shazeer et al. (arXiv 1701.06538);
// a bias for the choice alone, which balances without a loss: Wang et al. (arXiv 2408.15664);
// sigmoid scores and groups of experts: DeepSeek-V3 (arXiv 2412.19437).
//
//   score = softmax(logits) or sigmoid(logits)
//   rank  = logit, or score + bias where there is a bias or groups have the sum of their best two
//   experts of a token: the k of the largest ranks within its groups, best first
//   weight_j = scale * score_j / sum of the token's score_i, as WeightSum says
//
// The lower one of experts (or groups) with equal ranks is chosen; NaN ranks as minus infinity
// does.
#pragma once

#include "kernels/moe/route_operands.h"

namespace ds::kernels {

void route(Stream& stream, const RouteArgs& args);

// The weights of choices of which some have been dropped since, as their expert -1 says: these are
// 0, and the sum is that of the others. experts: int32 [N, k], weights: fp32 [N, k].
void route_weights(Stream& stream, const RouteRule& rule, const Tensor& scores,
                   const Tensor& experts, Tensor& weights);

// Gradients of weights, and of the scores beside them, go to the logits. The choice has none.
void route_backward(Stream& stream, const RouteBackwardArgs& args);

}  // namespace ds::kernels
