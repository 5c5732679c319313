// The front of attention, see attention.h: what its operands must be, and what it costs. On CUDA
// devices cuDNN is asked first (attention_choice.h).
#include "kernels/attention/attention.h"

#include "core/device/dispatch.h"
#include "core/status/error.h"
#include "kernels/attention/attention_cpu.h"
#include "kernels/attention/attention_operands.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/attention/cuda/attention_cudnn.h"
#include "kernels/front/argument.h"

namespace ds::kernels {
namespace {

void check_shape(std::string_view op, const AttentionShape& s) {
  DS_CHECK(s.batch > 0 && s.length > 0 && s.heads > 0 && s.kv_heads > 0 && s.head_dim > 0,
           "{}: batch {}, length {}, heads {}, kv_heads {}, head_dim {}: all must be positive", op,
           s.batch, s.length, s.heads, s.kv_heads, s.head_dim);
  DS_CHECK(s.heads % s.kv_heads == 0, "{}: {} query heads do not divide into {} key heads", op,
           s.heads, s.kv_heads);
}

void check_dropout(std::string_view op, const AttentionDropout& dropout) {
  DS_CHECK(dropout.p == 0 || dropout.mask.inputs != nullptr, "{}: there are no numbers to drop by",
           op);
}

void check_mask(std::string_view op, const Stream& stream, const AttentionSpec& spec) {
  const AttentionShape& s = spec.shape;
  const AttentionMask& mask = spec.mask;
  detail::check_scores(op, mask, spec.scale, spec.softcap);
  detail::refuse_narrow_values(op, spec);
  if (mask.ranges.defined()) {
    detail::require_like(op, "ranges", stream, mask.ranges, 2 * s.batch * s.length, DType::kI32);
  }
  detail::check_layout(op, stream, mask, s.heads, s.length);
}

// Operations of one product over all heads.
double product_flops(const AttentionSpec& spec) {
  const AttentionShape& s = spec.shape;
  return 2 * static_cast<double>(s.batch * s.heads * s.head_dim) * seen_pairs(spec);
}

}  // namespace

AttentionMask AttentionMask::within(int64_t length) const {
  AttentionMask mask = *this;
  if (left >= length - 1) mask.left = kAnyDistance;
  if (right > 0 && right >= length - 1) mask.right = kAnyDistance;
  return mask;
}

double seen_pairs(const AttentionSpec& spec) {
  const int64_t length = spec.shape.length;
  const detail::SeenKeys positions{.left = detail::near_or_far(spec.mask.left),
                                   .right = detail::near_or_far(spec.mask.right)};
  return positions.pairs(length, length);
}

void attention_forward(Stream& stream, const AttentionSpec& spec, const Tensor& qkv, Tensor& y,
                       Tensor& log_sum_exp, const AttentionDropout& dropout) {
  constexpr std::string_view kOp = "attention_forward";
  const AttentionShape& shape = spec.shape;
  check_shape(kOp, shape);
  check_mask(kOp, stream, spec);
  check_dropout(kOp, dropout);
  const int64_t rows = shape.batch * shape.length;
  detail::require_numel(kOp, "qkv", stream, qkv, rows * shape.packed());
  detail::require_float(kOp, "qkv", qkv);
  detail::require_like(kOp, "y", stream, y, rows * shape.heads * shape.head_dim, qkv.dtype());
  detail::require_like(kOp, "log_sum_exp", stream, log_sum_exp, rows * shape.heads, DType::kF32);
  stream.report(kOp, {.flops = 2 * product_flops(spec),
                      .bytes = static_cast<double>(qkv.bytes() + y.bytes() + log_sum_exp.bytes())});
  const Tensor none;
  const detail::AttentionOperands operands =
      detail::operands_of(spec, qkv, y, log_sum_exp, none, none, dropout);
  on_device(
      stream, [&](Cpu) { detail::attention_forward_cpu(stream, operands); },
      [&](Cuda) {
        if (!detail::attention_forward_by_cudnn(stream, operands)) {
          detail::attention_forward_cuda(stream, operands);
        }
      });
}

void attention_backward(Stream& stream, const AttentionSpec& spec, const Tensor& qkv,
                        const Tensor& y, const Tensor& log_sum_exp, const Tensor& dy, Tensor& dqkv,
                        const AttentionDropout& dropout) {
  constexpr std::string_view kOp = "attention_backward";
  const AttentionShape& shape = spec.shape;
  check_shape(kOp, shape);
  check_mask(kOp, stream, spec);
  check_dropout(kOp, dropout);
  const int64_t rows = shape.batch * shape.length;
  detail::require_numel(kOp, "qkv", stream, qkv, rows * shape.packed());
  detail::require_float(kOp, "qkv", qkv);
  detail::require_like(kOp, "y", stream, y, rows * shape.heads * shape.head_dim, qkv.dtype());
  detail::require_like(kOp, "dy", stream, dy, y.numel(), qkv.dtype());
  detail::require_like(kOp, "log_sum_exp", stream, log_sum_exp, rows * shape.heads, DType::kF32);
  detail::require_like(kOp, "dqkv", stream, dqkv, qkv.numel(), qkv.dtype());
  stream.report(kOp, {.flops = 5 * product_flops(spec),
                      .bytes = static_cast<double>(2 * qkv.bytes() + 2 * y.bytes())});
  const detail::AttentionOperands operands =
      detail::operands_of(spec, qkv, y, log_sum_exp, dy, dqkv, dropout);
  on_device(
      stream, [&](Cpu) { detail::attention_backward_cpu(stream, operands); },
      [&](Cuda) {
        if (!detail::attention_backward_by_cudnn(stream, operands)) {
          detail::attention_backward_cuda(stream, operands);
        }
      });
}

void attention_decode(Stream& stream, const AttentionSpec& spec, const Tensor& q,
                      const Tensor& cache_k, const Tensor& cache_v, int64_t capacity, Tensor& y) {
  constexpr std::string_view kOp = "attention_decode";
  const AttentionShape& shape = spec.shape;
  check_shape(kOp, shape);
  check_mask(kOp, stream, spec);
  if (!spec.mask.is_positional()) {
    throw Unsupported("attention_decode: ranges and layouts of what a new position sees");
  }
  DS_CHECK(shape.length <= capacity, "{}: {} positions filled of a cache of {}", kOp, shape.length,
           capacity);
  const int64_t numel = shape.batch * shape.heads * shape.head_dim;
  const int64_t cached = shape.batch * capacity * shape.kv_heads * shape.head_dim;
  detail::require_numel(kOp, "q", stream, q, numel);
  detail::require_float(kOp, "q", q);
  detail::require_like(kOp, "cache_k", stream, cache_k, cached, q.dtype());
  detail::require_like(kOp, "cache_v", stream, cache_v, cached, q.dtype());
  detail::require_like(kOp, "y", stream, y, numel, q.dtype());
  const detail::DecodeOperands operands{
      .shape = shape,
      .first_key = std::max<int64_t>(shape.length - 1 - spec.mask.left, 0),
      .scale = detail::scale_of(spec.scale, shape.head_dim),
      .softcap = spec.softcap,
      .q = q,
      .keys = cache_k,
      .values = cache_v,
      .capacity = capacity,
      .y = y};
  const auto seen = static_cast<double>(shape.length - operands.first_key);
  const auto width = static_cast<double>(shape.batch * shape.kv_heads * shape.head_dim);
  stream.report(kOp, {.flops = 4 * static_cast<double>(numel) * seen,
                      .bytes = 2 * width * seen * static_cast<double>(size_of(q.dtype()))});
  on_device(
      stream, [&](Cpu) { detail::attention_decode_cpu(stream, operands); },
      [&](Cuda) { detail::attention_decode_cuda(stream, operands); });
}

}  // namespace ds::kernels
