// The front of sinks of attention, see attention_sink.h: what operands must be, and what it costs.
#include "kernels/attention/attention_sink.h"

#include "core/device/dispatch.h"
#include "kernels/attention/attention_sink_cpu.h"
#include "kernels/attention/cuda/attention_sink_cuda.h"
#include "kernels/front/argument.h"

namespace ds::kernels {
namespace {

int64_t queries_of(const AttentionShape& shape) { return shape.batch * shape.length * shape.heads; }

void check(std::string_view op, const Stream& stream, const AttentionShape& shape,
           const Tensor& sinks, const Tensor& log_sum_exp) {
  DS_CHECK(queries_of(shape) > 0 && shape.head_dim > 0,
           "{}: batch {}, length {}, heads {}, head_dim {}: all must be positive", op, shape.batch,
           shape.length, shape.heads, shape.head_dim);
  detail::require_numel(op, "sinks", stream, sinks, shape.heads);
  detail::require_float(op, "sinks", sinks);
  detail::require_like(op, "log_sum_exp", stream, log_sum_exp, queries_of(shape), DType::kF32);
}

}  // namespace

void add_sinks(Stream& stream, const AttentionShape& shape, const Tensor& sinks, Tensor& y,
               Tensor& log_sum_exp) {
  constexpr std::string_view kOp = "add_sinks";
  check(kOp, stream, shape, sinks, log_sum_exp);
  detail::require_numel(kOp, "y", stream, y, queries_of(shape) * shape.head_dim);
  detail::require_float(kOp, "y", y);
  stream.report(kOp, {.flops = static_cast<double>(y.numel()),
                      .bytes = static_cast<double>(2 * (y.bytes() + log_sum_exp.bytes()))});
  on_device(
      stream, [&](Cpu) { detail::add_sinks_cpu(stream, shape, sinks, y, log_sum_exp); },
      [&](Cuda) { detail::add_sinks_cuda(stream, shape, sinks, y, log_sum_exp); });
}

void sink_terms(Stream& stream, const AttentionShape& shape, const Tensor& sinks,
                const Tensor& log_sum_exp, const Tensor& delta, Tensor& terms) {
  constexpr std::string_view kOp = "sink_terms";
  check(kOp, stream, shape, sinks, log_sum_exp);
  detail::require_like(kOp, "delta", stream, delta, queries_of(shape), DType::kF32);
  detail::require_like(kOp, "terms", stream, terms, queries_of(shape), DType::kF32);
  stream.report(kOp, {.flops = 2 * static_cast<double>(terms.numel()),
                      .bytes = 3 * static_cast<double>(terms.bytes())});
  on_device(
      stream, [&](Cpu) { detail::sink_terms_cpu(stream, shape, sinks, log_sum_exp, delta, terms); },
      [&](Cuda) { detail::sink_terms_cuda(stream, shape, sinks, log_sum_exp, delta, terms); });
}

}  // namespace ds::kernels
