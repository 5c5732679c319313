#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/value_loss/hidden_loss.h"
#include "model/functions/functions.h"
#include "model/functions/token_losses.h"

namespace ds {
namespace {

// The first rows of [rows, width], or the first elements of [rows].
Tensor first_rows(const Tensor& table, int64_t rows) {
  const Shape& shape = table.shape();
  if (shape[0] <= rows) return table;
  if (shape.rank() == 1) return table.narrow(0, rows);
  return table.narrow(0, rows * shape[1]).reshape({rows, shape[1]});
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved on
Tensor distilled_cross_entropy(Context& context, Var x, const LogitsSpec& spec,
                               const LossRows& rows, const TaughtLogits& taught, float grad_scale) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  const Operands operands = context.pass.operands;
  const int64_t vocabulary = store.spec(spec.weight).shape[0];
  const Lease weight = store.acquire(taught.spec.weight);
  std::optional<Lease> bias;
  if (taught.spec.bias != kNoParam) bias.emplace(store.acquire(taught.spec.bias));
  const Tensor divergences = Tensor::empty({taught.x.shape()[0]}, DType::kF32, stream);
  const kernels::TeacherHead teacher{
      .x = as_operand(stream, taught.x, operands),
      .weight = as_operand(stream, first_rows(weight.weight(), vocabulary), operands),
      .bias =
          bias ? as_operand(stream, first_rows(bias->weight(), vocabulary), operands) : Tensor(),
      .softcap = taught.spec.softcap,
      .rule = taught.rule,
      .divergences = divergences};
  Tensor losses = token_losses(context, std::move(x), spec, rows, grad_scale, &teacher);
  context.report_loss(kDivergenceFigure, divergences);
  return losses;
}

Tensor hidden_losses(Context& context, const Var& x, const TaughtState& taught,
                     const LossRows& rows, float grad_scale) {
  Stream& stream = context.stream;
  Tensor losses = Tensor::empty({x.value.shape()[0]}, DType::kF32, stream);
  kernels::HiddenLossArgs args{.student = x.value,
                               .teacher = taught.teacher,
                               .targets = rows.targets,
                               .row_weights = rows.row_weights,
                               .weight = taught.weight,
                               .losses = losses,
                               .grad_scale = grad_scale,
                               .loss_scale = context.pass.loss_scale};
  if (!context.differentiates() || x.slot == Var::kConstant) {
    kernels::hidden_loss(stream, args);
    return losses;
  }
  args.dstudent = Tensor::empty(x.value.shape(), x.value.dtype(), stream);
  kernels::hidden_loss(stream, args);
  context.show(NumberKind::kOutput, "hidden_loss", losses);
  auto backward = [dx = args.dstudent](GradientFlow& flow) mutable { flow.give(0, std::move(dx)); };
  args.dstudent = Tensor();
  context.record("hidden_loss", {&x, 1}, {}, std::move(backward));
  return losses;
}

}  // namespace ds
