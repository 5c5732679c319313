// The front of the losses of routers, see router_loss.h.
#include "kernels/moe/router_loss.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/front/costs.h"
#include "kernels/moe/cuda/router_loss_cuda.h"
#include "kernels/moe/route_operands.h"
#include "kernels/moe/router_loss_cpu.h"

namespace ds::kernels {
namespace {

void check_balance(std::string_view op, const Stream& stream, const BalanceLoss& args) {
  DS_CHECK(args.counts.defined(), "{}: counts is undefined", op);
  const int64_t experts = args.counts.numel();
  DS_CHECK(experts >= 1 && experts <= kMostExperts, "{}: {} experts, expected 1 to {}", op, experts,
           kMostExperts);
  DS_CHECK(args.choices >= 1, "{}: {} choices of a token", op, args.choices);
  const int64_t tokens = detail::rows_of(op, "scores", args.scores, experts);
  detail::require_like(op, "counts", stream, args.counts, experts, DType::kI32);
  detail::require_like(op, "scores", stream, args.scores, tokens * experts, DType::kF32);
}

void check_logits(std::string_view op, const Stream& stream, const Tensor& logits,
                  int64_t experts) {
  DS_CHECK(experts >= 1 && experts <= kMostExperts, "{}: {} experts, expected 1 to {}", op, experts,
           kMostExperts);
  const int64_t tokens = detail::rows_of(op, "logits", logits, experts);
  detail::require_like(op, "logits", stream, logits, tokens * experts, DType::kF32);
}

}  // namespace

void balance_loss(Stream& stream, const BalanceLoss& args, Tensor& loss) {
  check_balance("balance_loss", stream, args);
  detail::require_like("balance_loss", "loss", stream, loss, 1, DType::kF64);
  stream.report("balance_loss", {.flops = static_cast<double>(args.scores.numel()),
                                 .bytes = static_cast<double>(args.scores.bytes())});
  on_device(
      stream, [&](Cpu) { detail::balance_loss_cpu(stream, args, loss); },
      [&](Cuda) { detail::balance_loss_cuda(stream, args, loss); });
}

void balance_loss_backward(Stream& stream, const BalanceLoss& args, const LossGradient& gradient,
                           Tensor& dscores) {
  constexpr std::string_view kOp = "balance_loss_backward";
  check_balance(kOp, stream, args);
  detail::require_like(kOp, "dscores", stream, dscores, args.scores.numel(), DType::kF32);
  const double passes = gradient.write == Write::kAccumulate ? 2 : 1;
  stream.report(kOp, {.flops = static_cast<double>(dscores.numel()),
                      .bytes = passes * static_cast<double>(dscores.bytes())});
  on_device(
      stream, [&](Cpu) { detail::balance_loss_backward_cpu(stream, args, gradient, dscores); },
      [&](Cuda) { detail::balance_loss_backward_cuda(stream, args, gradient, dscores); });
}

void z_loss(Stream& stream, const Tensor& logits, int64_t experts, Tensor& loss) {
  check_logits("z_loss", stream, logits, experts);
  detail::require_like("z_loss", "loss", stream, loss, 1, DType::kF64);
  stream.report("z_loss", {.flops = detail::kActivationFlops * static_cast<double>(logits.numel()),
                           .bytes = static_cast<double>(logits.bytes())});
  on_device(
      stream, [&](Cpu) { detail::z_loss_cpu(stream, logits, experts, loss); },
      [&](Cuda) { detail::z_loss_cuda(stream, logits, experts, loss); });
}

void z_loss_backward(Stream& stream, const Tensor& logits, int64_t experts,
                     const LossGradient& gradient, Tensor& dlogits) {
  constexpr std::string_view kOp = "z_loss_backward";
  check_logits(kOp, stream, logits, experts);
  detail::require_like(kOp, "dlogits", stream, dlogits, logits.numel(), DType::kF32);
  const double passes = gradient.write == Write::kAccumulate ? 3 : 2;
  stream.report(kOp, {.flops = 2 * detail::kActivationFlops * static_cast<double>(logits.numel()),
                      .bytes = passes * static_cast<double>(dlogits.bytes())});
  on_device(
      stream, [&](Cpu) { detail::z_loss_backward_cpu(stream, logits, experts, gradient, dlogits); },
      [&](Cuda) { detail::z_loss_backward_cuda(stream, logits, experts, gradient, dlogits); });
}

}  // namespace ds::kernels
