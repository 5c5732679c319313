#include <optional>

#include "kernels/softmax/softmax.h"
#include "model/exchange/tensor.h"
#include "model/functions/functions.h"
#include "model/functions/token_losses.h"

namespace ds {

Tensor linear_cross_entropy(Context& context, Var x, const LogitsSpec& spec, const Tensor& targets,
                            float grad_scale, const Tensor& row_weights) {
  return token_losses(context, std::move(x), spec, {targets, row_weights}, grad_scale);
}

Tensor token_losses(Context& context, Var x, const LogitsSpec& spec, const LossRows& rows,
                    float grad_scale, const kernels::TeacherHead* teacher) {
  Stream& stream = context.stream;
  Tensor losses = Tensor::empty({x.value.shape()[0]}, DType::kF32, stream);
  ParameterStore& store = *context.store;
  const Lease lease = store.acquire(spec.weight);
  std::optional<Lease> bias;
  if (spec.bias != kNoParam) bias.emplace(store.acquire(spec.bias));
  kernels::LinearCrossEntropyArgs args{
      .x = as_operand(stream, x.value, context.pass.operands),
      .weight = as_operand(stream, lease.weight(), context.pass.operands),
      .targets = rows.targets,
      .row_weights = rows.row_weights,
      .bias = bias ? as_operand(stream, bias->weight(), context.pass.operands) : Tensor(),
      .losses = losses,
      .softcap = spec.softcap,
      .teacher = teacher};
  kernels::SharedVocabulary shared;
  if (context.parallel.group(Axis::kTensor) != nullptr && !spec.is_whole) {
    shared = shared_vocabulary(context, store.spec(spec.weight));
    args.shared = &shared;
  }
  if (!context.differentiates()) {
    kernels::linear_cross_entropy(stream, args);
    return losses;
  }
  const bool weight_trains = store.trains(spec.weight);
  const bool bias_trains = store.trains(spec.bias);
  args.grad_scale = grad_scale;
  args.loss_scale = context.pass.loss_scale;
  args.dx = Tensor::empty(x.value.shape(), args.x.dtype(), stream);
  if (weight_trains) {
    const GradSlot slot = store.grad_slot(spec.weight);
    args.dweight = slot.grad;
    args.write_dweight = slot.write;
  }
  if (bias_trains) {
    const GradSlot of_bias = store.grad_slot(spec.bias);
    args.dbias = of_bias.grad;
    args.write_dbias = of_bias.write;
  }
  kernels::linear_cross_entropy(stream, args);
  context.show(NumberKind::kOutput, "linear_cross_entropy", losses);
  if (weight_trains) store.grad_ready(spec.weight);
  if (bias_trains) store.grad_ready(spec.bias);
  // Not saved: it is what the backward pass begins with, so it would come back at once.
  auto backward = [&stream, dtype = x.value.dtype(), dx = args.dx](GradientFlow& flow) mutable {
    flow.give(0, as_value(stream, std::move(dx), dtype));
  };
  args.dx = Tensor();
  context.record("linear_cross_entropy", {&x, 1}, {}, std::move(backward));
  return losses;
}

Tensor value_losses(Context& context, Var scores, kernels::ValueLoss loss, const Tensor& values,
                    const Tensor& targets, float grad_scale) {
  Stream& stream = context.stream;
  Tensor losses = Tensor::empty({scores.value.shape()[0]}, DType::kF32, stream);
  kernels::ValueLossArgs args{.loss = loss,
                              .scores = scores.value,
                              .values = values,
                              .targets = targets,
                              .losses = losses,
                              .grad_scale = grad_scale,
                              .loss_scale = context.pass.loss_scale};
  if (!context.differentiates()) {
    kernels::value_loss(stream, args);
    return losses;
  }
  args.dscores = Tensor::empty(scores.value.shape(), scores.value.dtype(), stream);
  kernels::value_loss(stream, args);
  context.show(NumberKind::kOutput, "value_loss", losses);
  auto backward = [dscores = args.dscores](GradientFlow& flow) mutable {
    flow.give(0, std::move(dscores));
  };
  args.dscores = Tensor();
  context.record("value_loss", {&scores, 1}, {}, std::move(backward));
  return losses;
}

}  // namespace ds
