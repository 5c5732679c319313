#include "model/functions/functions.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/pooling/pooling.h"
#include "model/exchange/sequence.h"
#include "model/exchange/tensor.h"
#include "model/pass/module_label.h"
#include "model/pass/own.h"

namespace ds {
namespace {

struct NormValues {
  Tensor sum, y, mean, inv_std;  // mean undefined for RMS norm
};

// The bias of a layer norm, or zeros where it has none.
struct BiasOfNorm {
  BiasOfNorm(ParameterStore& store, const NormSpec& spec, const Tensor& gamma, Stream& stream) {
    if (spec.beta != kNoParam) lease.emplace(store.acquire(spec.beta));
    tensor = lease ? lease->weight() : Tensor::zeros(gamma.shape(), gamma.dtype(), stream);
  }
  std::optional<Lease> lease;
  Tensor tensor;
};

NormValues normalize(Context& context, const Tensor& residual, const Tensor& branch,
                     const NormSpec& spec) {
  Stream& stream = context.stream;
  const Span span(stream, module_label(*context.store, spec.gamma));
  const Lease gamma = context.store->acquire(spec.gamma);
  const Shape& shape = residual.shape();
  NormValues out;
  out.sum = branch.defined() ? Tensor::empty(shape, residual.dtype(), stream) : residual;
  out.y = Tensor::empty(shape, residual.dtype(), stream);
  out.inv_std = Tensor::empty({shape[0]}, DType::kF32, stream);
  if (spec.form == NormForm::kRms) {
    if (branch.defined()) {
      kernels::add_rms_norm(stream, branch, residual, gamma.weight(), spec.eps, out.sum, out.y,
                            out.inv_std, spec.weight);
    } else {
      kernels::rms_norm(stream, residual, gamma.weight(), spec.eps, out.y, out.inv_std,
                        spec.weight);
    }
    return out;
  }
  const BiasOfNorm beta(*context.store, spec, gamma.weight(), stream);
  out.mean = Tensor::empty({shape[0]}, DType::kF32, stream);
  if (branch.defined()) {
    kernels::add_layer_norm(stream, branch, residual, gamma.weight(), beta.tensor, spec.eps,
                            out.sum, out.y, out.mean, out.inv_std);
  } else {
    kernels::layer_norm(stream, residual, gamma.weight(), beta.tensor, spec.eps, out.y, out.mean,
                        out.inv_std);
  }
  return out;
}

Tensor norm_gradient(Stream& stream, ParameterStore& store, const NormSpec& spec, const Tensor& sum,
                     const Tensor& mean, const Tensor& inv_std, const Tensor& dy,
                     const Tensor& dsum) {
  Tensor dx;
  if (dy.is_sole_owner()) {
    dx = dy;
  } else if (dsum.defined() && dsum.is_sole_owner()) {
    dx = dsum;
  } else {
    dx = Tensor::empty(dy.shape(), dy.dtype(), stream);
  }
  const Lease gamma = store.acquire(spec.gamma);
  const GradSlot gamma_slot = store.grad_slot(spec.gamma);
  kernels::LayerNormGrads grads{.dgamma = gamma_slot.grad,
                                .dbeta = Tensor(),
                                .write_gamma = gamma_slot.write,
                                .write_beta = kernels::Write::kOverwrite};
  if (spec.form == NormForm::kRms) {
    kernels::rms_norm_backward(stream, sum, gamma.weight(), inv_std, dy, dsum, dx, grads,
                               spec.weight);
  } else {
    const bool has_bias = spec.beta != kNoParam;
    const GradSlot beta_slot =
        has_bias ? store.grad_slot(spec.beta)
                 : GradSlot{.grad = Tensor::empty(gamma_slot.grad.shape(), gamma_slot.grad.dtype(),
                                                  stream)};
    grads.dbeta = beta_slot.grad;
    grads.write_beta = beta_slot.write;
    kernels::layer_norm_backward(stream, sum, gamma.weight(), mean, inv_std, dy, dsum, dx, grads);
    if (has_bias) store.grad_ready(spec.beta);
  }
  store.grad_ready(spec.gamma);
  return dx;
}

}  // namespace

NormOutput norm(Context& context, const Var& residual, const Var& branch, const NormSpec& spec) {
  Stream& stream = context.stream;
  ParameterStore& store = *context.store;
  NormValues values = normalize(context, residual.value, branch.value, spec);
  auto backward = [&stream, &store, spec, sum_saved = context.save(values.sum),
                   mean_saved = context.save(values.mean),
                   inv_saved = context.save(values.inv_std)](GradientFlow& flow) mutable {
    const Tensor dsum = flow.take(0);
    const Tensor dy = flow.take(1);
    DS_CHECK(dy.defined(), "norm: its output was not used, so it has no gradient");
    Tensor dx = norm_gradient(stream, store, spec, take(sum_saved), take(mean_saved),
                              take(inv_saved), dy, dsum);
    flow.give(1, dx);
    flow.give(0, std::move(dx));
  };
  const std::array<Var, 2> inputs{residual, branch};
  std::vector<Var> out = context.record(
      "norm", inputs, {std::move(values.sum), std::move(values.y)}, std::move(backward));
  return {std::move(out[0]), std::move(out[1])};
}

namespace {

// Samples of which a part is here are not one run of numbers. `first`: of those that are here,
// where other ranks have the elements before.
void drop_part(Stream& stream, const Tensor& x, float p, kernels::DropoutMask mask,
               const SamplePart& part, int64_t first, Tensor& y) {
  if (part.is_whole()) {
    mask.skipped = first;
    return kernels::dropout(stream, x, p, mask, part.sample_numel, y);
  }
  int64_t begin = 0;  // of a run, among those that are here
  for (int64_t sample = 0; begin < first + x.numel(); ++sample) {
    for (const Range& kept : part.kept) {
      const int64_t from = std::max(begin, first);
      const int64_t end = std::min(begin + kept.numel(), first + x.numel());
      if (from < end) {
        mask.skipped = sample * part.sample_numel + kept.begin + (from - begin);
        Tensor to = y.narrow(from - first, end - from);
        kernels::dropout(stream, x.narrow(from - first, end - from), p, mask, part.sample_numel,
                         to);
      }
      begin += kept.numel();
    }
  }
}

}  // namespace

Var dropout(Context& context, Var x, const DropoutSpec& spec, int64_t length) {
  if (context.pass.mode != RunMode::kTrain || spec.p == 0) return x;
  Stream& stream = context.stream;
  const kernels::DropoutMask mask{context.pass.micro, spec.site};
  const SamplePart part = sample_part(context, length, x.value.shape()[1]);
  const int64_t first = rows_before(context, x.value.shape()[0]) * x.value.shape()[1];
  const auto apply = [&stream, mask, part, first, p = spec.p](Tensor given) {
    const Tensor from = std::move(given);
    Tensor to = from.is_sole_owner() ? from : Tensor::empty(from.shape(), from.dtype(), stream);
    drop_part(stream, from, p, mask, part, first, to);
    return to;
  };
  Tensor y = context.pass.unread ? std::move(x.value) : apply(std::move(x.value));
  auto backward = [apply](GradientFlow& flow) { flow.give(0, apply(flow.take(0))); };
  return context.record("dropout", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

Var scaled(Context& context, Var x, float factor) {
  if (factor == 1.0F) return x;
  Stream& stream = context.stream;
  const auto apply = [&stream, factor](Tensor given) {
    Tensor y = own(stream, std::move(given));
    kernels::scale(stream, factor, y);
    return y;
  };
  Tensor y = context.pass.unread ? std::move(x.value) : apply(std::move(x.value));
  auto backward = [apply](GradientFlow& flow) { flow.give(0, apply(flow.take(0))); };
  return context.record("scale", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

Var mean_of_rows(Context& context, const Var& x, const SequenceRows& rows) {
  DS_CHECK(rows.key_ranges.defined(), "mean of rows: nothing says which of them are padding");
  Stream& stream = context.stream;
  Tensor y = Tensor::empty(x.value.shape(), x.value.dtype(), stream);
  kernels::mean_rows(stream, x.value, rows.key_ranges, rows.length, y);
  auto backward = [&stream, ranges = rows.key_ranges, length = rows.length](GradientFlow& flow) {
    const Tensor dy = flow.take(0);
    Tensor dx = Tensor::empty(dy.shape(), dy.dtype(), stream);
    kernels::mean_rows_backward(stream, dy, ranges, length, dx);
    flow.give(0, std::move(dx));
  };
  return context.record("mean_rows", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

Var activated(Context& context, const Var& x, kernels::Activation activation) {
  if (activation == kernels::Activation::kNone) return x;
  Stream& stream = context.stream;
  Tensor y = Tensor::empty(x.value.shape(), x.value.dtype(), stream);
  kernels::activation_forward(stream, activation, x.value, y);
  auto backward = [&stream, activation,
                   x_saved = context.save(x.value)](GradientFlow& flow) mutable {
    Tensor dx = own(stream, flow.take(0));
    kernels::activation_backward(stream, activation, take(x_saved), dx, dx);
    flow.give(0, std::move(dx));
  };
  return context.record("activation", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace ds
