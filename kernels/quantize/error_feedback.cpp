// The front of error feedback, see error_feedback.h.
#include "kernels/quantize/error_feedback.h"

#include "core/dispatch.h"
#include "kernels/argument.h"
#include "kernels/cpu/quantize/error_feedback.h"
#include "kernels/cuda/quantize/error_feedback.h"

namespace ds::kernels {
namespace {

void require_fp32(std::string_view op, std::string_view operand, const Stream& stream,
                  const Tensor& tensor, int64_t numel) {
  detail::require_numel(op, operand, stream, tensor, numel);
  detail::require_dtype(op, operand, tensor, DType::kF32);
}

}  // namespace

void feed_back(Stream& stream, const Tensor& x, const Tensor& y, float beta, Tensor& error) {
  constexpr std::string_view kOp = "feed_back";
  DS_CHECK(error.defined() && beta >= 0 && beta <= 1, "{}: a decay of {}", kOp, beta);
  require_fp32(kOp, "error", stream, error, error.numel());
  require_fp32(kOp, "x", stream, x, error.numel());
  require_fp32(kOp, "y", stream, y, error.numel());
  stream.report(kOp, {.flops = 4 * static_cast<double>(error.numel()),
                      .bytes = 4 * static_cast<double>(error.bytes())});
  on_device(
      stream, [&](Cpu) { detail::feed_back_cpu(stream, x, y, beta, error); },
      [&](Cuda) { detail::feed_back_cuda(stream, x, y, beta, error); });
}

void rescale_errors(Stream& stream, const StepScalars& scalars, Tensor& scales) {
  constexpr std::string_view kOp = "rescale_errors";
  DS_CHECK(scales.defined(), "{}: no scales", kOp);
  require_fp32(kOp, "scales", stream, scales, scales.numel());
  stream.report(kOp, {.flops = static_cast<double>(scales.numel()),
                      .bytes = 2 * static_cast<double>(scales.bytes())});
  on_device(
      stream, [&](Cpu) { detail::rescale_errors_cpu(scalars, scales); },
      [&](Cuda) {
        if (!stream.device().is_meta()) detail::rescale_errors_cuda(stream, scalars, scales);
      });
}

}  // namespace ds::kernels
