// The front of means over rows, see pooling.h: what operands must be, and what it costs.
#include "kernels/pooling/pooling.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/pooling/pooling_cpu.h"
#include "kernels/pooling/pooling_cuda.h"

namespace ds::kernels {
namespace {

void check(std::string_view op, const Stream& stream, const Tensor& from, const Tensor& ranges,
           int64_t length, const Tensor& to) {
  DS_CHECK(length > 0, "{}: samples of {} rows", op, length);
  DS_CHECK(ranges.defined() && ranges.numel() % (2 * length) == 0,
           "{}: ranges are of no samples of {} rows", op, length);
  detail::require_like(op, "ranges", stream, ranges, ranges.numel(), DType::kI32);
  detail::require_numel(op, "from", stream, from, from.numel());
  detail::require_float(op, "from", from);
  DS_CHECK(from.shape().rank() == 2 && from.shape()[0] == ranges.numel() / 2,
           "{}: {} of {} rows with ranges", op, from.shape().to_string(), ranges.numel() / 2);
  detail::require_like(op, "to", stream, to, from.numel(), from.dtype());
  stream.report(op, {.flops = static_cast<double>(from.numel()),
                     .bytes = static_cast<double>(from.bytes() + to.bytes())});
}

}  // namespace

void mean_rows(Stream& stream, const Tensor& x, const Tensor& ranges, int64_t length, Tensor& y) {
  check("mean_rows", stream, x, ranges, length, y);
  on_device(
      stream, [&](Cpu) { detail::mean_rows_cpu(stream, x, ranges, length, y); },
      [&](Cuda) { detail::mean_rows_cuda(stream, x, ranges, length, y); });
}

void mean_rows_backward(Stream& stream, const Tensor& dy, const Tensor& ranges, int64_t length,
                        Tensor& dx) {
  check("mean_rows_backward", stream, dy, ranges, length, dx);
  on_device(
      stream, [&](Cpu) { detail::mean_rows_backward_cpu(stream, dy, ranges, length, dx); },
      [&](Cuda) { detail::mean_rows_backward_cuda(stream, dy, ranges, length, dx); });
}

}  // namespace ds::kernels
