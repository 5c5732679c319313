#include <array>

#include "model/functions/functions.h"
#include "model/functions/norm_passes.h"

namespace ds {

NormOutput norm(Context& context, const Var& residual, const Var& branch, const NormSpec& spec) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  NormValues values = normalize(context, residual.value, branch.value, spec);
  auto backward = [&stream, &store, spec, sum_saved = context.save(values.of.sum),
                   mean_saved = context.save(values.of.mean),
                   inv_saved = context.save(values.of.inv_std)](GradientFlow& flow) mutable {
    const Tensor dsum = flow.take(0);
    const Tensor dy = flow.take(1);
    DS_CHECK(dy.defined(), "norm: its output was not used, so it has no gradient");
    Tensor dx = norm_gradient(
        stream, store, spec,
        {.sum = take(sum_saved), .mean = take(mean_saved), .inv_std = take(inv_saved)}, dy, dsum);
    flow.give(1, dx);
    flow.give(0, std::move(dx));
  };
  const std::array<Var, 2> inputs{residual, branch};
  std::vector<Var> out = context.record(
      "norm", inputs, {std::move(values.of.sum), std::move(values.y)}, std::move(backward));
  return {std::move(out[0]), std::move(out[1])};
}

}  // namespace ds
