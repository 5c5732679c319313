// The front of attention, see attention.h: what its operands must be, and what it costs. On CUDA
// devices cuDNN is asked first (attention_choice.h).
#include "kernels/attention.h"

#include "core/dispatch.h"
#include "kernels/argument.h"
#include "kernels/attention_operands.h"
#include "kernels/cpu/attention.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cudnn.h"

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

// Multiply-adds of one causal product over all heads, counted as half of the full square.
double causal_flops(const AttentionShape& s) {
  return static_cast<double>(s.batch * s.heads * s.head_dim) * static_cast<double>(s.length) *
         static_cast<double>(s.length + 1);
}

}  // namespace

void attention_forward(Stream& stream, const AttentionShape& shape, const Tensor& qkv, Tensor& y,
                       Tensor& log_sum_exp, const AttentionDropout& dropout) {
  constexpr std::string_view kOp = "attention_forward";
  check_shape(kOp, shape);
  check_dropout(kOp, dropout);
  const int64_t rows = shape.batch * shape.length;
  detail::require_numel(kOp, "qkv", stream, qkv, rows * shape.packed());
  detail::require_float(kOp, "qkv", qkv);
  detail::require_like(kOp, "y", stream, y, rows * shape.heads * shape.head_dim, qkv.dtype());
  detail::require_like(kOp, "log_sum_exp", stream, log_sum_exp, rows * shape.heads, DType::kF32);
  stream.report(kOp, {.flops = 2 * causal_flops(shape),
                      .bytes = static_cast<double>(qkv.bytes() + y.bytes() + log_sum_exp.bytes())});
  const detail::AttentionOperands operands{shape, qkv, y, log_sum_exp, {}, {}, dropout};
  on_device(
      stream, [&](Cpu) { detail::attention_forward_cpu(stream, operands); },
      [&](Cuda) {
        if (!detail::attention_forward_by_cudnn(stream, operands)) {
          detail::attention_forward_cuda(stream, operands);
        }
      });
}

void attention_backward(Stream& stream, const AttentionShape& shape, const Tensor& qkv,
                        const Tensor& y, const Tensor& log_sum_exp, const Tensor& dy, Tensor& dqkv,
                        const AttentionDropout& dropout) {
  constexpr std::string_view kOp = "attention_backward";
  check_shape(kOp, shape);
  check_dropout(kOp, dropout);
  const int64_t rows = shape.batch * shape.length;
  detail::require_numel(kOp, "qkv", stream, qkv, rows * shape.packed());
  detail::require_float(kOp, "qkv", qkv);
  detail::require_like(kOp, "y", stream, y, rows * shape.heads * shape.head_dim, qkv.dtype());
  detail::require_like(kOp, "dy", stream, dy, y.numel(), qkv.dtype());
  detail::require_like(kOp, "log_sum_exp", stream, log_sum_exp, rows * shape.heads, DType::kF32);
  detail::require_like(kOp, "dqkv", stream, dqkv, qkv.numel(), qkv.dtype());
  stream.report(kOp, {.flops = 5 * causal_flops(shape),
                      .bytes = static_cast<double>(2 * qkv.bytes() + 2 * y.bytes())});
  const detail::AttentionOperands operands{shape, qkv, y, log_sum_exp, dy, dqkv, dropout};
  on_device(
      stream, [&](Cpu) { detail::attention_backward_cpu(stream, operands); },
      [&](Cuda) {
        if (!detail::attention_backward_by_cudnn(stream, operands)) {
          detail::attention_backward_cuda(stream, operands);
        }
      });
}

void attention_decode(Stream& stream, const AttentionShape& shape, const Tensor& q,
                      const Tensor& cache_k, const Tensor& cache_v, int64_t capacity, Tensor& y) {
  constexpr std::string_view kOp = "attention_decode";
  check_shape(kOp, shape);
  DS_CHECK(shape.length <= capacity, "{}: {} positions filled of a cache of {}", kOp, shape.length,
           capacity);
  const int64_t numel = shape.batch * shape.heads * shape.head_dim;
  const int64_t cached = shape.batch * capacity * shape.kv_heads * shape.head_dim;
  detail::require_numel(kOp, "q", stream, q, numel);
  detail::require_float(kOp, "q", q);
  detail::require_like(kOp, "cache_k", stream, cache_k, cached, q.dtype());
  detail::require_like(kOp, "cache_v", stream, cache_v, cached, q.dtype());
  detail::require_like(kOp, "y", stream, y, numel, q.dtype());
  const auto read =
      static_cast<double>(shape.batch * shape.length * shape.kv_heads * shape.head_dim);
  stream.report(kOp, {.flops = 4 * static_cast<double>(numel * shape.length),
                      .bytes = 2 * read * static_cast<double>(size_of(q.dtype()))});
  on_device(
      stream,
      [&](Cpu) { detail::attention_decode_cpu(stream, shape, q, cache_k, cache_v, capacity, y); },
      [&](Cuda) {
        detail::attention_decode_cuda(stream, shape, q, cache_k, cache_v, capacity, y);
      });
}

}  // namespace ds::kernels
