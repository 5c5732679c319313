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

// Slots of what trains. A layer norm makes both sums or none: that of a bias which is frozen, or
// not there, goes to memory that nobody reads.
kernels::LayerNormGrads gradient_slots(Stream& stream, ParameterStore& store,
                                       const NormSpec& spec) {
  kernels::LayerNormGrads grads;
  if (store.trains(spec.gamma)) {
    const GradSlot slot = store.grad_slot(spec.gamma);
    grads.dgamma = slot.grad;
    grads.write_gamma = slot.write;
  }
  if (spec.form == NormForm::kRms) return grads;
  if (store.trains(spec.beta)) {
    const GradSlot slot = store.grad_slot(spec.beta);
    grads.dbeta = slot.grad;
    grads.write_beta = slot.write;
  }
  if (grads.dgamma.defined() == grads.dbeta.defined()) return grads;
  const Tensor& made = grads.dgamma.defined() ? grads.dgamma : grads.dbeta;
  Tensor& unread = grads.dgamma.defined() ? grads.dbeta : grads.dgamma;
  unread = Tensor::empty(made.shape(), made.dtype(), stream);
  return grads;
}

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
  kernels::LayerNormGrads grads = gradient_slots(stream, store, spec);
  if (spec.form == NormForm::kRms) {
    kernels::rms_norm_backward(stream, sums.sum, gamma.weight(), sums.inv_std, dy, dsum, dx, grads,
                               spec.weight);
  } else {
    kernels::layer_norm_backward(stream, sums.sum, gamma.weight(), sums.mean, sums.inv_std, dy,
                                 dsum, dx, grads);
  }
  if (store.trains(spec.beta)) store.grad_ready(spec.beta);
  if (store.trains(spec.gamma)) store.grad_ready(spec.gamma);
  return dx;
}

}  // namespace ds
