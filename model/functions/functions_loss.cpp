#include "kernels/softmax/softmax.h"
#include "model/exchange/tensor.h"
#include "model/functions/functions.h"

namespace ds {

Tensor linear_cross_entropy(Context& context, Var x, ParamId weight, const Tensor& targets,
                            float grad_scale, const Tensor& row_weights, float softcap) {
  Stream& stream = context.stream;
  Tensor losses = Tensor::empty({x.value.shape()[0]}, DType::kF32, stream);
  const Lease lease = context.store->acquire(weight);
  kernels::LinearCrossEntropyArgs args{
      .x = as_operand(stream, x.value, context.pass.operands),
      .weight = as_operand(stream, lease.weight(), context.pass.operands),
      .targets = targets,
      .row_weights = row_weights,
      .losses = losses,
      .softcap = softcap};
  kernels::SharedVocabulary shared;
  if (context.parallel.group(Axis::kTensor) != nullptr) {
    shared = shared_vocabulary(context, context.store->spec(weight));
    args.shared = &shared;
  }
  if (!context.differentiates()) {
    kernels::linear_cross_entropy(stream, args);
    return losses;
  }
  GradSlot slot = context.store->grad_slot(weight);
  args.grad_scale = grad_scale;
  args.loss_scale = context.pass.loss_scale;
  args.dx = Tensor::empty(x.value.shape(), args.x.dtype(), stream);
  args.dweight = slot.grad;
  args.write_dweight = slot.write;
  kernels::linear_cross_entropy(stream, args);
  context.show(NumberKind::kOutput, "linear_cross_entropy", losses);
  context.store->grad_ready(weight);
  // Not saved: it is what the backward pass begins with, so it would come back at once.
  auto backward = [&stream, dtype = x.value.dtype(), dx = args.dx](GradientFlow& flow) mutable {
    flow.give(0, as_value(stream, std::move(dx), dtype));
  };
  args.dx = Tensor();
  context.record("linear_cross_entropy", {&x, 1}, {}, std::move(backward));
  return losses;
}

}  // namespace ds
