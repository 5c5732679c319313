// The front of layer norm and RMS norm, see layer_norm.h: what their operands must be, and what
// they cost.
#include "kernels/norm/layer_norm.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/norm/layer_norm_cpu.h"
#include "kernels/norm/layer_norm_cuda.h"
#include "kernels/norm/layer_norm_operands.h"

namespace ds::kernels {
namespace {

constexpr double kForwardFlops = 8;  // per element
constexpr double kBackwardFlops = 16;

void run_forward(Stream& stream, std::string_view op, const detail::NormForward& a) {
  DS_CHECK(a.gamma.defined(), "{}: gamma is undefined", op);
  const int64_t columns = a.gamma.numel();
  const int64_t rows = detail::rows_of(op, "x", a.x, columns);
  const DType dtype = a.x.dtype();
  detail::require_float(op, "x", a.x);
  detail::require_like(op, "x", stream, a.x, rows * columns, dtype);
  detail::require_like(op, "gamma", stream, a.gamma, columns, dtype);
  detail::require_like(op, "y", stream, a.y, rows * columns, dtype);
  detail::require_like(op, "inverse", stream, a.inv, rows, DType::kF32);
  if (a.kind == detail::Norm::kLayer) {
    detail::require_like(op, "beta", stream, a.beta, columns, dtype);
    detail::require_like(op, "mean", stream, a.mean, rows, DType::kF32);
  }
  if (a.residual.defined()) {
    detail::require_like(op, "residual", stream, a.residual, rows * columns, dtype);
    detail::require_like(op, "sum", stream, a.sum, rows * columns, dtype);
  }
  const double passes = a.residual.defined() ? 4 : 2;
  stream.report(op, {.flops = kForwardFlops * static_cast<double>(a.x.numel()),
                     .bytes = passes * static_cast<double>(a.x.bytes())});
  on_device(
      stream, [&](Cpu) { detail::norm_forward_cpu(stream, a, rows); },
      [&](Cuda) { detail::norm_forward_cuda(stream, op, a, rows); });
}

void require_gradients(const Stream& stream, std::string_view op, const detail::NormBackward& a,
                       const LayerNormGrads& grads) {
  if (!grads.dgamma.defined() && !grads.dbeta.defined()) return;
  const int64_t columns = a.gamma.numel();
  detail::require_numel(op, "dgamma", stream, grads.dgamma, columns);
  detail::require_float(op, "dgamma", grads.dgamma);
  if (a.kind == detail::Norm::kLayer) {
    detail::require_like(op, "dbeta", stream, grads.dbeta, columns, grads.dgamma.dtype());
  }
}

void run_backward(Stream& stream, std::string_view op, const detail::NormBackward& a,
                  LayerNormGrads& grads) {
  DS_CHECK(a.gamma.defined(), "{}: gamma is undefined", op);
  const int64_t columns = a.gamma.numel();
  const int64_t rows = detail::rows_of(op, "x", a.x, columns);
  const DType dtype = a.x.dtype();
  detail::require_float(op, "x", a.x);
  detail::require_like(op, "x", stream, a.x, rows * columns, dtype);
  detail::require_like(op, "gamma", stream, a.gamma, columns, dtype);
  detail::require_like(op, "dy", stream, a.dy, rows * columns, dtype);
  detail::require_like(op, "dx", stream, a.dx, rows * columns, dtype);
  detail::require_like(op, "inverse", stream, a.inv, rows, DType::kF32);
  if (a.kind == detail::Norm::kLayer) {
    detail::require_like(op, "mean", stream, a.mean, rows, DType::kF32);
  }
  require_gradients(stream, op, a, grads);
  if (a.residual_grad.defined()) {
    detail::require_like(op, "residual_grad", stream, a.residual_grad, rows * columns, dtype);
  }
  stream.report(op, {.flops = kBackwardFlops * static_cast<double>(a.x.numel()),
                     .bytes = 5 * static_cast<double>(a.x.bytes())});
  on_device(
      stream, [&](Cpu) { detail::norm_backward_cpu(stream, a, rows, grads); },
      [&](Cuda) { detail::norm_backward_cuda(stream, op, a, rows, grads); });
}

detail::Norm rms_of(RmsWeight weight) {
  return weight == RmsWeight::kOnePlus ? detail::Norm::kRmsOnePlus : detail::Norm::kRms;
}

}  // namespace

void layer_norm(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                Tensor& y, Tensor& mean, Tensor& inv_std) {
  run_forward(stream, "layer_norm",
              {detail::Norm::kLayer, x, {}, gamma, beta, eps, {}, y, mean, inv_std});
}

void add_layer_norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& gamma,
                    const Tensor& beta, float eps, Tensor& sum, Tensor& y, Tensor& mean,
                    Tensor& inv_std) {
  run_forward(stream, "add_layer_norm",
              {detail::Norm::kLayer, x, residual, gamma, beta, eps, sum, y, mean, inv_std});
}

void layer_norm_backward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& inv_std, const Tensor& dy, const Tensor& residual_grad,
                         Tensor& dx, LayerNormGrads& grads) {
  run_backward(stream, "layer_norm_backward",
               {detail::Norm::kLayer, x, gamma, mean, inv_std, dy, residual_grad, dx}, grads);
}

void rms_norm(Stream& stream, const Tensor& x, const Tensor& gamma, float eps, Tensor& y,
              Tensor& inv_rms, RmsWeight weight) {
  run_forward(stream, "rms_norm", {rms_of(weight), x, {}, gamma, {}, eps, {}, y, {}, inv_rms});
}

void add_rms_norm(Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& gamma,
                  float eps, Tensor& sum, Tensor& y, Tensor& inv_rms, RmsWeight weight) {
  run_forward(stream, "add_rms_norm",
              {rms_of(weight), x, residual, gamma, {}, eps, sum, y, {}, inv_rms});
}

void rms_norm_backward(Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& inv_rms,
                       const Tensor& dy, const Tensor& residual_grad, Tensor& dx,
                       LayerNormGrads& grads, RmsWeight weight) {
  run_backward(stream, "rms_norm_backward",
               {rms_of(weight), x, gamma, {}, inv_rms, dy, residual_grad, dx}, grads);
}

}  // namespace ds::kernels
