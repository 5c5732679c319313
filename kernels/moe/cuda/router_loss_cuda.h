// The CUDA half of kernels/moe/router_loss. Operands have been checked.
#pragma once

#include "kernels/moe/router_loss_operands.h"

namespace ds::kernels::detail {

void balance_loss_cuda(Stream& stream, const BalanceLoss& args, Tensor& loss);
void balance_loss_backward_cuda(Stream& stream, const BalanceLoss& args,
                                const LossGradient& gradient, Tensor& dscores);
void z_loss_cuda(Stream& stream, const Tensor& logits, int64_t experts, Tensor& loss);
void z_loss_backward_cuda(Stream& stream, const Tensor& logits, int64_t experts,
                          const LossGradient& gradient, Tensor& dlogits);

}  // namespace ds::kernels::detail
