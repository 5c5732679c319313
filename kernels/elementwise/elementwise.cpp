// The front of streaming operations, see elementwise.h: what their operands must be, and what they
// cost.
#include "kernels/elementwise/elementwise.h"

#include "core/device/dispatch.h"
#include "kernels/elementwise/elementwise_cpu.h"
#include "kernels/elementwise/elementwise_cuda.h"
#include "kernels/front/argument.h"

namespace ds::kernels {
namespace {

void require(std::string_view op, std::string_view operand, const Stream& stream,
             const Tensor& tensor, int64_t numel) {
  detail::require_numel(op, operand, stream, tensor, numel);
  detail::require_float(op, operand, tensor);
}

double bytes_of(const Tensor& tensor) { return static_cast<double>(tensor.bytes()); }

}  // namespace

void fill(Stream& stream, Tensor& y, float value) {
  require("fill", "y", stream, y, y.numel());
  stream.report("fill", {.flops = 0, .bytes = bytes_of(y)});
  on_device(
      stream, [&](Cpu) { detail::fill_cpu(stream, y, value); },
      [&](Cuda) { detail::fill_cuda(stream, y, value); });
}

void add(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y) {
  require("add", "y", stream, y, y.numel());
  require("add", "a", stream, a, y.numel());
  require("add", "b", stream, b, y.numel());
  detail::require_dtype("add", "a", a, y.dtype());
  detail::require_dtype("add", "b", b, y.dtype());
  stream.report("add", {.flops = static_cast<double>(y.numel()), .bytes = 3 * bytes_of(y)});
  on_device(
      stream, [&](Cpu) { detail::add_cpu(stream, a, b, y); },
      [&](Cuda) { detail::add_cuda(stream, a, b, y); });
}

void accumulate(Stream& stream, const Tensor& x, Tensor& y) {
  require("accumulate", "y", stream, y, y.numel());
  require("accumulate", "x", stream, x, y.numel());
  stream.report("accumulate",
                {.flops = static_cast<double>(y.numel()), .bytes = bytes_of(x) + 2 * bytes_of(y)});
  on_device(
      stream, [&](Cpu) { detail::accumulate_cpu(stream, x, y); },
      [&](Cuda) { detail::accumulate_cuda(stream, x, y); });
}

void scale(Stream& stream, float factor, Tensor& y) {
  require("scale", "y", stream, y, y.numel());
  stream.report("scale", {.flops = static_cast<double>(y.numel()), .bytes = 2 * bytes_of(y)});
  on_device(
      stream, [&](Cpu) { detail::scale_cpu(stream, factor, y); },
      [&](Cuda) { detail::scale_cuda(stream, factor, y); });
}

void softcap(Stream& stream, float c, Tensor& y) {
  constexpr double kFlops = 20;  // of an element
  DS_CHECK(c > 0, "softcap: a cap of {}, expected more than 0", c);
  require("softcap", "y", stream, y, y.numel());
  stream.report("softcap",
                {.flops = kFlops * static_cast<double>(y.numel()), .bytes = 2 * bytes_of(y)});
  on_device(
      stream, [&](Cpu) { detail::softcap_cpu(stream, c, y); },
      [&](Cuda) { detail::softcap_cuda(stream, c, y); });
}

void cast(Stream& stream, const Tensor& x, Tensor& y) {
  require("cast", "y", stream, y, y.numel());
  require("cast", "x", stream, x, y.numel());
  stream.report("cast", {.flops = 0, .bytes = bytes_of(x) + bytes_of(y)});
  on_device(
      stream, [&](Cpu) { detail::cast_cpu(stream, x, y); },
      [&](Cuda) { detail::cast_cuda(stream, x, y); });
}

}  // namespace ds::kernels
