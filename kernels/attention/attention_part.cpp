// The front of parts of attention, see attention_part.h: what operands must be, and what it costs.
#include "kernels/attention/attention_part.h"

#include "core/device/dispatch.h"
#include "core/status/error.h"
#include "kernels/attention/attention_operands.h"
#include "kernels/attention/attention_part_cpu.h"
#include "kernels/attention/cuda/attention_part_cuda.h"
#include "kernels/front/argument.h"

namespace ds::kernels {
namespace {

void check_rows(std::string_view op, std::string_view what, const SequencePart& rows) {
  DS_CHECK(rows.first >= 0 && rows.count > 0 && rows.first + rows.count <= rows.length,
           "{}: {} [{}, {}) of {} rows", op, what, rows.first, rows.first + rows.count,
           rows.length);
}

void check_mask(std::string_view op, const Stream& stream, const AttentionPart& part) {
  const AttentionMask& mask = part.mask;
  detail::check_scores(op, mask, part.scale, part.softcap);
  if (mask.is_positional()) return;
  for (const SequencePart& rows : {part.queries, part.keys}) {
    DS_CHECK(rows.position >= 0 && rows.position + rows.count <= part.whole_length,
             "{}: positions [{}, {}) of {}", op, rows.position, rows.position + rows.count,
             part.whole_length);
  }
  if (mask.ranges.defined()) {
    detail::require_like(op, "ranges", stream, mask.ranges, 2 * part.batch * part.whole_length,
                         DType::kI32);
  }
  detail::check_layout(op, stream, mask, part.heads, part.whole_length);
}

void check_part(std::string_view op, const Stream& stream, const AttentionPart& part) {
  DS_CHECK(part.batch > 0 && part.heads > 0 && part.kv_heads > 0 && part.head_dim > 0 &&
               part.heads % part.kv_heads == 0,
           "{}: batch {}, heads {}, kv_heads {}, head_dim {}: all must be positive, and heads "
           "divide into those of keys",
           op, part.batch, part.heads, part.kv_heads, part.head_dim);
  check_rows(op, "queries", part.queries);
  check_rows(op, "keys", part.keys);
  check_mask(op, stream, part);
}

int64_t query_rows(const AttentionPart& part) { return part.batch * part.queries.length; }

// A CUDA half has no registers for more; a stream of meta that stands for one says so before a run.
void require_kernel(std::string_view op, const Stream& stream, const AttentionPart& part,
                    DType dtype) {
  if (stream.stands_for().kind != Device::Kind::kCuda || dtype != DType::kF32) return;
  if (detail::is_plain(part) || part.head_dim <= detail::kMostMaskedDimOfFp32Parts) return;
  throw Unsupported(fmt::format(
      "{}: fp32 heads of {} elements whose queries see a part of the keys before them or have a "
      "scale or a cap of their own, in a ring on a CUDA device; it has kernels for up to {}, and "
      "for more in 16 bits",
      op, part.head_dim, detail::kMostMaskedDimOfFp32Parts));
}

void require_inputs(std::string_view op, const Stream& stream, const AttentionPart& part,
                    const Tensor& qkv, const Tensor& kv) {
  require_kernel(op, stream, part, qkv.dtype());
  const int64_t keys = 2 * part.kv_heads * part.head_dim;
  const int64_t packed = part.heads * part.head_dim + keys;
  detail::require_numel(op, "qkv", stream, qkv, query_rows(part) * packed);
  detail::require_float(op, "qkv", qkv);
  detail::require_like(op, "kv", stream, kv, part.batch * part.keys.length * keys, qkv.dtype());
}

// Operations of one product over all heads.
double flops_of(const AttentionPart& part) {
  const double pairs = detail::seen_by_positions(part).pairs(part.queries.count, part.keys.count);
  return 2 * pairs * static_cast<double>(part.batch * part.heads * part.head_dim);
}

}  // namespace

AttentionPart part_of(const AttentionSpec& spec, const SequencePart& queries,
                      const SequencePart& keys) {
  const AttentionShape& shape = spec.shape;
  return {.batch = shape.batch,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .queries = queries,
          .keys = keys,
          .mask = spec.mask,
          .whole_length = spec.shape.length,
          .scale = spec.scale,
          .softcap = spec.softcap};
}

bool sees_anything(const AttentionPart& part) {
  const detail::SeenKeys seen = detail::seen_by_positions(part);
  const detail::SeenByRows rows{.seen = seen, .rows = part.queries.count, .keys = part.keys.count};
  return !rows.span().is_empty();
}

void attention_part_forward(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                            const Tensor& kv, Tensor& y, Tensor& log_sum_exp, Write write) {
  constexpr std::string_view kOp = "attention_part_forward";
  check_part(kOp, stream, part);
  require_inputs(kOp, stream, part, qkv, kv);
  const int64_t rows = query_rows(part);
  detail::require_like(kOp, "y", stream, y, rows * part.heads * part.head_dim, DType::kF32);
  detail::require_like(kOp, "log_sum_exp", stream, log_sum_exp, rows * part.heads, DType::kF32);
  stream.report(kOp, {.flops = 2 * flops_of(part),
                      .bytes = static_cast<double>(qkv.bytes() + kv.bytes() + y.bytes())});
  on_device(
      stream,
      [&](Cpu) {
        detail::attention_part_forward_cpu(stream, part, qkv, kv, y, log_sum_exp, write);
      },
      [&](Cuda) {
        detail::attention_part_forward_cuda(stream, part, qkv, kv, y, log_sum_exp, write);
      });
}

void attention_delta(Stream& stream, const AttentionShape& shape, const Tensor& y, const Tensor& dy,
                     Tensor& delta) {
  constexpr std::string_view kOp = "attention_delta";
  const int64_t rows = shape.batch * shape.length;
  const int64_t numel = rows * shape.heads * shape.head_dim;
  detail::require_numel(kOp, "y", stream, y, numel);
  detail::require_float(kOp, "y", y);
  detail::require_like(kOp, "dy", stream, dy, numel, y.dtype());
  detail::require_like(kOp, "delta", stream, delta, rows * shape.heads, DType::kF32);
  stream.report(kOp, {.flops = 2 * static_cast<double>(numel),
                      .bytes = static_cast<double>(2 * y.bytes() + delta.bytes())});
  on_device(
      stream, [&](Cpu) { detail::attention_delta_cpu(stream, shape, y, dy, delta); },
      [&](Cuda) { detail::attention_delta_cuda(stream, shape, y, dy, delta); });
}

void attention_part_backward(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                             const Tensor& kv, const AttentionPartGrads& grads) {
  constexpr std::string_view kOp = "attention_part_backward";
  check_part(kOp, stream, part);
  require_inputs(kOp, stream, part, qkv, kv);
  const int64_t rows = query_rows(part);
  const int64_t outputs = rows * part.heads * part.head_dim;
  detail::require_like(kOp, "log_sum_exp", stream, grads.log_sum_exp, rows * part.heads,
                       DType::kF32);
  detail::require_like(kOp, "delta", stream, grads.delta, rows * part.heads, DType::kF32);
  detail::require_like(kOp, "dy", stream, grads.dy, outputs, qkv.dtype());
  detail::require_like(kOp, "dq", stream, grads.dq, outputs, DType::kF32);
  detail::require_like(kOp, "dkv", stream, grads.dkv, kv.numel(), DType::kF32);
  stream.report(kOp, {.flops = 5 * flops_of(part),
                      .bytes = static_cast<double>(qkv.bytes() + kv.bytes() + grads.dy.bytes() +
                                                   2 * grads.dq.bytes() + 2 * grads.dkv.bytes())});
  on_device(
      stream, [&](Cpu) { detail::attention_part_backward_cpu(stream, part, qkv, kv, grads); },
      [&](Cuda) { detail::attention_part_backward_cuda(stream, part, qkv, kv, grads); });
}

}  // namespace ds::kernels
