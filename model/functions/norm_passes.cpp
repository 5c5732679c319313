#include "model/functions/norm_passes.h"

#include <optional>

#include "kernels/norm/layer_norm.h"
#include "model/pass/module_label.h"

namespace ds {
namespace {

// The bias of a layer norm, or zeros where it has none.
struct BiasOfNorm {
  BiasOfNorm(ParameterStore& store, const NormSpec& spec, const Tensor& gamma, Stream& stream) {
    if (spec.beta != kNoParam) lease.emplace(store.acquire(spec.beta));
    tensor = lease ? lease->weight() : Tensor::zeros(gamma.shape(), gamma.dtype(), stream);
  }
  std::optional<Lease> lease;
  Tensor tensor;
};

}  // namespace

NormValues normalize(Context& context, const Tensor& residual, const Tensor& branch,
                     const NormSpec& spec) {
  Stream& stream = context.stream;
  const Span span(stream, module_label(*context.store, spec.gamma));
  const Lease gamma = context.store->acquire(spec.gamma);
  const Shape& shape = residual.shape();
  NormValues out;
  out.of.sum = branch.defined() ? Tensor::empty(shape, residual.dtype(), stream) : residual;
  out.y = Tensor::empty(shape, residual.dtype(), stream);
  out.of.inv_std = Tensor::empty({shape[0]}, DType::kF32, stream);
  if (spec.form == NormForm::kRms) {
    if (branch.defined()) {
      kernels::add_rms_norm(stream, branch, residual, gamma.weight(), spec.eps, out.of.sum, out.y,
                            out.of.inv_std, spec.weight);
    } else {
      kernels::rms_norm(stream, residual, gamma.weight(), spec.eps, out.y, out.of.inv_std,
                        spec.weight);
    }
    return out;
  }
  const BiasOfNorm beta(*context.store, spec, gamma.weight(), stream);
  out.of.mean = Tensor::empty({shape[0]}, DType::kF32, stream);
  if (branch.defined()) {
    kernels::add_layer_norm(stream, branch, residual, gamma.weight(), beta.tensor, spec.eps,
                            out.of.sum, out.y, out.of.mean, out.of.inv_std);
  } else {
    kernels::layer_norm(stream, residual, gamma.weight(), beta.tensor, spec.eps, out.y, out.of.mean,
                        out.of.inv_std);
  }
  return out;
}

Tensor norm_gradient(Stream& stream, ParameterStore& store, const NormSpec& spec,
                     const NormSums& sums, const Tensor& dy, const Tensor& dsum) {
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
    kernels::rms_norm_backward(stream, sums.sum, gamma.weight(), sums.inv_std, dy, dsum, dx, grads,
                               spec.weight);
  } else {
    const bool has_bias = spec.beta != kNoParam;
    const GradSlot beta_slot =
        has_bias ? store.grad_slot(spec.beta)
                 : GradSlot{.grad = Tensor::empty(gamma_slot.grad.shape(), gamma_slot.grad.dtype(),
                                                  stream)};
    grads.dbeta = beta_slot.grad;
    grads.write_beta = beta_slot.write;
    kernels::layer_norm_backward(stream, sums.sum, gamma.weight(), sums.mean, sums.inv_std, dy,
                                 dsum, dx, grads);
    if (has_bias) store.grad_ready(spec.beta);
  }
  store.grad_ready(spec.gamma);
  return dx;
}

}  // namespace ds
