// The front of error feedback, see error_feedback.h.
#include "kernels/quantize/error_feedback.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/quantize/error_feedback_cpu.h"
#include "kernels/quantize/error_feedback_cuda.h"

namespace ds::kernels {
void feed_back(Stream& stream, const Tensor& x, const Tensor& y, float beta, Tensor& error) {
  constexpr std::string_view kOp = "feed_back";
  DS_CHECK(error.defined() && beta >= 0 && beta <= 1, "{}: a decay of {}", kOp, beta);
  detail::require_like(kOp, "error", stream, error, error.numel(), DType::kF32);
  detail::require_like(kOp, "x", stream, x, error.numel(), DType::kF32);
  detail::require_like(kOp, "y", stream, y, error.numel(), DType::kF32);
  stream.report(kOp, {.flops = 4 * static_cast<double>(error.numel()),
                      .bytes = 4 * static_cast<double>(error.bytes())});
  on_device(
      stream, [&](Cpu) { detail::feed_back_cpu(stream, x, y, beta, error); },
      [&](Cuda) { detail::feed_back_cuda(stream, x, y, beta, error); });
}

void rescale_errors(Stream& stream, const StepScalars& scalars, Tensor& scales) {
  constexpr std::string_view kOp = "rescale_errors";
  DS_CHECK(scales.defined(), "{}: no scales", kOp);
  detail::require_like(kOp, "scales", stream, scales, scales.numel(), DType::kF32);
  stream.report(kOp, {.flops = static_cast<double>(scales.numel()),
                      .bytes = 2 * static_cast<double>(scales.bytes())});
  on_device(
      stream, [&](Cpu) { detail::rescale_errors_cpu(scalars, scales); },
      [&](Cuda) {
        if (!stream.device().is_meta()) detail::rescale_errors_cuda(stream, scalars, scales);
      });
}

}  // namespace ds::kernels
