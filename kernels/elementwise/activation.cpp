// The front of activations and dropout, see activation.h: what their operands must be, and what
// they cost.
#include "kernels/elementwise/activation.h"

#include "core/device/dispatch.h"
#include "kernels/elementwise/activation_cpu.h"
#include "kernels/elementwise/activation_cuda.h"
#include "kernels/front/argument.h"
#include "kernels/front/costs.h"

namespace ds::kernels {
namespace {

constexpr double kFlops = detail::kActivationFlops;

void require(std::string_view op, std::string_view operand, const Stream& stream,
             const Tensor& tensor, int64_t numel, DType dtype) {
  detail::require_numel(op, operand, stream, tensor, numel);
  detail::require_float(op, operand, tensor);
  detail::require_dtype(op, operand, tensor, dtype);
}

}  // namespace

void activation_forward(Stream& stream, Activation kind, const Tensor& x, Tensor& y) {
  require("activation_forward", "x", stream, x, x.numel(), x.dtype());
  require("activation_forward", "y", stream, y, x.numel(), x.dtype());
  stream.report("activation_forward", {.flops = kFlops * static_cast<double>(x.numel()),
                                       .bytes = 2 * static_cast<double>(x.bytes())});
  on_device(
      stream, [&](Cpu) { detail::activation_forward_cpu(stream, kind, x, y); },
      [&](Cuda) { detail::activation_forward_cuda(stream, kind, x, y); });
}

void activation_backward(Stream& stream, Activation kind, const Tensor& x, const Tensor& dy,
                         Tensor& dx) {
  require("activation_backward", "x", stream, x, x.numel(), x.dtype());
  require("activation_backward", "dy", stream, dy, x.numel(), x.dtype());
  require("activation_backward", "dx", stream, dx, x.numel(), x.dtype());
  stream.report("activation_backward", detail::activation_backward_cost(x));
  on_device(
      stream, [&](Cpu) { detail::activation_backward_cpu(stream, kind, x, dy, dx); },
      [&](Cuda) { detail::activation_backward_cuda(stream, kind, x, dy, dx); });
}

void glu_forward(Stream& stream, Activation f, const Tensor& gate_up, Tensor& y) {
  const std::string_view op = f == Activation::kSilu ? "swiglu_forward" : "glu_forward";
  const int64_t width = y.defined() && y.shape().rank() > 0 ? y.shape()[-1] : 0;
  const int64_t rows = detail::rows_of(op, "y", y, width);
  require(op, "y", stream, y, y.numel(), y.dtype());
  require(op, "gate_up", stream, gate_up, 2 * y.numel(), y.dtype());
  stream.report(op, {.flops = kFlops * static_cast<double>(y.numel()),
                     .bytes = 3 * static_cast<double>(y.bytes())});
  on_device(
      stream, [&](Cpu) { detail::glu_forward_cpu(stream, f, gate_up, rows, width, y); },
      [&](Cuda) { detail::glu_forward_cuda(stream, f, gate_up, rows, width, y); });
}

void glu_backward(Stream& stream, Activation f, const Tensor& gate_up, const Tensor& dy,
                  Tensor& dgate_up) {
  const std::string_view op = f == Activation::kSilu ? "swiglu_backward" : "glu_backward";
  const int64_t width = dy.defined() && dy.shape().rank() > 0 ? dy.shape()[-1] : 0;
  const int64_t rows = detail::rows_of(op, "dy", dy, width);
  require(op, "dy", stream, dy, dy.numel(), dy.dtype());
  require(op, "gate_up", stream, gate_up, 2 * dy.numel(), dy.dtype());
  require(op, "dgate_up", stream, dgate_up, 2 * dy.numel(), dy.dtype());
  stream.report(op, {.flops = 2 * kFlops * static_cast<double>(dy.numel()),
                     .bytes = 5 * static_cast<double>(dy.bytes())});
  on_device(
      stream, [&](Cpu) { detail::glu_backward_cpu(stream, f, gate_up, dy, rows, width, dgate_up); },
      [&](Cuda) { detail::glu_backward_cuda(stream, f, gate_up, dy, rows, width, dgate_up); });
}

void dropout(Stream& stream, const Tensor& x, float p, const DropoutMask& mask,
             int64_t sample_numel, Tensor& y) {
  require("dropout", "x", stream, x, x.numel(), x.dtype());
  require("dropout", "y", stream, y, x.numel(), x.dtype());
  DS_CHECK(p >= 0.0F && p < 1.0F, "dropout: p is {}, expected 0 <= p < 1", p);
  DS_CHECK(mask.inputs != nullptr, "dropout: there are no numbers to drop by");
  stream.report("dropout", {.flops = kFlops * static_cast<double>(x.numel()),
                            .bytes = 2 * static_cast<double>(x.bytes())});
  on_device(
      stream, [&](Cpu) { detail::dropout_cpu(stream, x, p, mask, sample_numel, y); },
      [&](Cuda) { detail::dropout_cuda(stream, x, p, mask, sample_numel, y); });
}

}  // namespace ds::kernels
