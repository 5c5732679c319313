// The front of losses of hidden states, see hidden_loss.h: what operands must be, and what it
// costs.
#include "kernels/value_loss/hidden_loss.h"

#include <cmath>

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/value_loss/hidden_loss_cpu.h"
#include "kernels/value_loss/hidden_loss_cuda.h"

namespace ds::kernels {

void hidden_loss(Stream& stream, const HiddenLossArgs& args) {
  constexpr std::string_view kOp = "hidden_loss";
  DS_CHECK(
      args.student.defined() && args.student.shape().rank() == 2 && args.student.shape()[1] > 0,
      "{}: student is no matrix [N, C]", kOp);
  const int64_t rows = args.student.shape()[0], numel = args.student.numel();
  detail::require_numel(kOp, "student", stream, args.student, numel);
  detail::require_float(kOp, "student", args.student);
  detail::require_numel(kOp, "teacher", stream, args.teacher, numel);
  detail::require_float(kOp, "teacher", args.teacher);
  detail::require_like(kOp, "targets", stream, args.targets, rows, DType::kI32);
  if (args.row_weights.defined()) {
    detail::require_like(kOp, "row_weights", stream, args.row_weights, rows, DType::kF32);
  }
  DS_CHECK(args.weight >= 0 && std::isfinite(args.weight), "{}: a weight of {}, expected 0 or more",
           kOp, args.weight);
  detail::require_like(kOp, "losses", stream, args.losses, rows, DType::kF32);
  if (args.dstudent.defined()) {
    detail::require_like(kOp, "dstudent", stream, args.dstudent, numel, args.student.dtype());
  }
  const bool backward = args.dstudent.defined();
  stream.report(kOp, {.flops = (backward ? 4.0 : 3.0) * static_cast<double>(numel),
                      .bytes = (backward ? 2.0 : 1.0) * static_cast<double>(args.student.bytes()) +
                               static_cast<double>(args.teacher.bytes())});
  if (rows == 0) return;
  on_device(
      stream, [&](Cpu) { detail::hidden_loss_cpu(stream, args); },
      [&](Cuda) { detail::hidden_loss_cuda(stream, args); });
}

}  // namespace ds::kernels
