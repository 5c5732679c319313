// The front of losses of values, see value_loss.h: what operands must be, and what it costs.
#include "kernels/value_loss/value_loss.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/value_loss/value_loss_cpu.h"
#include "kernels/value_loss/value_loss_cuda.h"

namespace ds::kernels {

void value_loss(Stream& stream, const ValueLossArgs& args) {
  constexpr std::string_view kOp = "value_loss";
  DS_CHECK(args.scores.defined() && args.scores.shape().rank() == 2 && args.scores.shape()[1] > 0,
           "{}: scores are no matrix [N, K]", kOp);
  const int64_t rows = args.scores.shape()[0], width = args.scores.shape()[1];
  detail::require_numel(kOp, "scores", stream, args.scores, rows * width);
  detail::require_float(kOp, "scores", args.scores);
  DS_CHECK(
      args.values.defined() && args.values.shape().rank() == 2 && args.values.shape()[1] == width,
      "{}: values are no matrix of samples [samples, {}]", kOp, width);
  const int64_t samples = args.values.shape()[0];
  DS_CHECK(samples == 0 ? rows == 0 : rows % samples == 0, "{}: {} rows of {} samples", kOp, rows,
           samples);
  detail::require_like(kOp, "values", stream, args.values, samples * width, DType::kF32);
  detail::require_like(kOp, "targets", stream, args.targets, rows, DType::kI32);
  detail::require_like(kOp, "losses", stream, args.losses, rows, DType::kF32);
  if (args.dscores.defined()) {
    detail::require_like(kOp, "dscores", stream, args.dscores, rows * width, args.scores.dtype());
  }
  stream.report(kOp, {.flops = 10.0 * static_cast<double>(rows * width),
                      .bytes = 2.0 * static_cast<double>(args.scores.bytes())});
  if (rows == 0) return;
  on_device(
      stream, [&](Cpu) { detail::value_loss_cpu(stream, args); },
      [&](Cuda) { detail::value_loss_cuda(stream, args); });
}

}  // namespace ds::kernels
