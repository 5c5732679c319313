// Losses that routers are trained with beside the model's, and their gradients. Both are fp64
// numbers on the device, sums in fp64 whose order depends on the shape alone. Of no tokens they
// are 0.
#pragma once

#include "kernels/moe/router_loss_operands.h"

namespace ds::kernels {

// Load balance (Shazeer et al., arXiv 1701.06538; Fedus et al., arXiv 2101.03961):
//   loss = experts / k * sum_e mean_n(score[n, e]) * (counts[e] / N)
// where counts are those of the k choices that count of each token, before any is dropped
// (kernels/moe/expert_order.h): a constant, so that the gradient of score[n, e] is
// experts / (k N^2) * counts[e].
void balance_loss(Stream& stream, const BalanceLoss& args, Tensor& loss);  // fp64 [1]
// dscores: fp32 [N, experts].
void balance_loss_backward(Stream& stream, const BalanceLoss& args, const LossGradient& gradient,
                           Tensor& dscores);

// The z-loss (Zoph et al., arXiv 2202.08906): mean_n(log(sum_e exp(logits[n, e]))^2).
// logits and dlogits: fp32 [N, experts].
void z_loss(Stream& stream, const Tensor& logits, int64_t experts, Tensor& loss);
void z_loss_backward(Stream& stream, const Tensor& logits, int64_t experts,
                     const LossGradient& gradient, Tensor& dlogits);

}  // namespace ds::kernels
