// Causal attention; see attention.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
#include "kernels/attention.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/dispatch.h"
#include "kernels/argument.h"
#include "kernels/simd.inl"

#ifndef DS_KERNELS_ATTENTION_ARGS
#define DS_KERNELS_ATTENTION_ARGS
namespace ds::kernels::detail {

struct AttentionOperands {
  AttentionShape shape;
  const Tensor& qkv;
  const Tensor& y;
  const Tensor& log_sum_exp;
  const Tensor& dy;    // backward
  const Tensor& dqkv;  // backward
  const AttentionDropout& dropout;
};

// What multiplies the `count` probabilities of one query: 0 or 1/(1-p). `row` numbers queries over all
// samples and heads; rows start at a whole random block.
inline void dropout_row(const AttentionDropout& dropout, int64_t row, int64_t length, int64_t count,
                        float* mask) {
  const auto first_block = static_cast<uint64_t>(row * ((length + 3) / 4));
  const float kept = 1.0F / (1.0F - dropout.p);
  for (int64_t j = 0; j < count; j += 4) {
    const auto words = dropout.rng.block(first_block + static_cast<uint64_t>(j / 4));
    for (int64_t k = 0; k < std::min<int64_t>(4, count - j); ++k) {
      const float uniform = static_cast<float>(words[static_cast<size_t>(k)] >> 8) * 0x1p-24F;
      mask[j + k] = uniform >= dropout.p ? kept : 0.0F;
    }
  }
}

}  // namespace ds::kernels::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

template <class T>
float dot(const T* a, const T* b, int64_t n) {
  const Lanes d;
  auto total = hn::Zero(d);
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    total = hn::MulAdd(get(d, a + i, count), get(d, b + i, count), total);
  }
  return sum_lanes(d, total);
}

template <class T>
void axpy(float factor, const T* x, float* y, int64_t n) {
  const Lanes d;
  const auto f = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    put(hn::MulAdd(f, get(d, x + i, count), get(d, y + i, count)), d, y + i, count);
  }
}

template <class T>
void write_row(const float* x, float factor, T* y, int64_t n) {
  const Lanes d;
  const auto f = hn::Set(d, factor);
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    put(hn::Mul(f, get(d, x + i, count)), d, y + i, count);
  }
}

// One query against `count` keys whose rows are `stride` apart; returns log sum exp of the scores.
// `mask`, if any, multiplies the probabilities.
template <class T>
float attend(const T* q, const T* keys, const T* values, int64_t stride, int64_t count, int64_t dim,
             const float* mask, T* y, std::vector<float>& scratch) {
  scratch.assign(static_cast<size_t>(count + dim), 0.0F);
  float* scores = scratch.data();
  float* out = scores + count;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t s = 0; s < count; ++s) {
    scores[s] = dot(q, keys + s * stride, dim) * scale;
    most = std::max(most, scores[s]);
  }
  float total = 0;
  for (int64_t s = 0; s < count; ++s) {
    const float weight = std::exp(scores[s] - most);
    total += weight;
    axpy(mask == nullptr ? weight : weight * mask[s], values + s * stride, out, dim);
  }
  write_row(out, 1.0F / total, y, dim);
  return most + std::log(total);
}

template <class T>
void forward_typed(const detail::AttentionOperands& a, int64_t begin, int64_t end) {
  const AttentionShape& s = a.shape;
  std::vector<float> scratch;
  std::vector<float> mask(a.dropout.p > 0 ? static_cast<size_t>(s.length) : 0);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t b = item / s.heads;
    const int64_t h = item % s.heads;
    const T* rows = a.qkv.data<T>() + b * s.length * s.packed();
    const int64_t kv = h / (s.heads / s.kv_heads);
    const T* keys = rows + (s.heads + kv) * s.head_dim;
    const T* values = keys + s.kv_heads * s.head_dim;
    for (int64_t t = 0; t < s.length; ++t) {
      T* y = a.y.data<T>() + ((b * s.length + t) * s.heads + h) * s.head_dim;
      const int64_t row = (a.dropout.first_sample * s.heads + item) * s.length + t;
      if (!mask.empty()) detail::dropout_row(a.dropout, row, s.length, t + 1, mask.data());
      a.log_sum_exp.data<float>()[item * s.length + t] =
          attend(rows + t * s.packed() + h * s.head_dim, keys, values, s.packed(), t + 1,
                 s.head_dim, mask.empty() ? nullptr : mask.data(), y, scratch);
    }
  }
}

// p[j] = exp(p[j] - log_sum_exp); p has room for one vector past its end.
void softmax_from_scores(float* p, int64_t count, float log_sum_exp) {
  const Lanes d;
  const auto most = hn::Set(d, log_sum_exp);
  for (int64_t j = 0; j < count; j += lane_count()) {
    store(exp(d, hn::Sub(load(d, p + j), most)), d, p + j);
  }
}

void multiply_by(const float* factors, int64_t count, float* values) {
  for (int64_t j = 0; j < count; ++j) values[j] *= factors[j];
}

// ds = p * (dp - delta), in place of dp, with delta = sum(p * dp) / sum(p). Taken from the same numbers
// rather than from dy * y (as arXiv 2205.14135 does), so that each row of ds sums to zero to the last
// bit: gradients that vanish in exact arithmetic (of a bias on the keys) stay so small that an
// optimizer which divides by their size does not turn them into steps.
void score_gradient(const float* p, float* dp, int64_t count, float scale) {
  double weighted = 0;
  double total = 0;
  for (int64_t j = 0; j < count; ++j) {
    weighted += double{p[j]} * double{dp[j]};
    total += double{p[j]};
  }
  const Lanes d;
  const auto delta = hn::Set(d, static_cast<float>(weighted / total));
  const auto factor = hn::Set(d, scale);
  for (int64_t j = 0; j < count; j += lane_count()) {
    const auto centred = hn::Sub(load(d, dp + j), delta);
    store(hn::Mul(hn::Mul(load(d, p + j), centred), factor), d, dp + j);
  }
}

// Gradients of one key-value head: all its query heads in turn.
template <class T>
void backward_typed(const detail::AttentionOperands& a, int64_t begin, int64_t end) {
  const AttentionShape& s = a.shape;
  const int64_t dim = s.head_dim;
  const int64_t stride = s.packed();
  const int64_t group = s.heads / s.kv_heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  std::vector<float> p(static_cast<size_t>(s.length + lane_count()), 0.0F);
  std::vector<float> ds(p), mask(a.dropout.p > 0 ? static_cast<size_t>(s.length) : 0);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t b = item / s.kv_heads;
    const int64_t kv = item % s.kv_heads;
    const T* rows = a.qkv.data<T>() + b * s.length * stride;
    T* drows = a.dqkv.data<T>() + b * s.length * stride;
    const int64_t key_at = (s.heads + kv) * dim;
    const int64_t value_at = key_at + s.kv_heads * dim;
    std::vector<float> dk(static_cast<size_t>(s.length * dim), 0.0F);
    std::vector<float> dv(dk), dq(static_cast<size_t>(dim));
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      for (int64_t t = 0; t < s.length; ++t) {
        const T* q = rows + t * stride + h * dim;
        const T* dy = a.dy.data<T>() + ((b * s.length + t) * s.heads + h) * dim;
        for (int64_t j = 0; j <= t; ++j) {
          p[static_cast<size_t>(j)] = dot(q, rows + j * stride + key_at, dim) * scale;
          ds[static_cast<size_t>(j)] = dot(dy, rows + j * stride + value_at, dim);
        }
        const int64_t query = (b * s.heads + h) * s.length + t;
        softmax_from_scores(p.data(), t + 1, a.log_sum_exp.data<float>()[query]);
        if (!mask.empty()) {
          const int64_t first = a.dropout.first_sample * s.heads * s.length;
          detail::dropout_row(a.dropout, first + query, s.length, t + 1, mask.data());
          multiply_by(mask.data(), t + 1, ds.data());
        }
        score_gradient(p.data(), ds.data(), t + 1, scale);
        if (!mask.empty()) multiply_by(mask.data(), t + 1, p.data());
        std::fill(dq.begin(), dq.end(), 0.0F);
        for (int64_t j = 0; j <= t; ++j) {
          const auto at = static_cast<size_t>(j);
          axpy(p[at], dy, dv.data() + j * dim, dim);
          axpy(ds[at], q, dk.data() + j * dim, dim);
          axpy(ds[at], rows + j * stride + key_at, dq.data(), dim);
        }
        write_row(dq.data(), 1.0F, drows + t * stride + h * dim, dim);
      }
    }
    for (int64_t j = 0; j < s.length; ++j) {
      write_row(dk.data() + j * dim, 1.0F, drows + j * stride + key_at, dim);
      write_row(dv.data() + j * dim, 1.0F, drows + j * stride + value_at, dim);
    }
  }
}

}  // namespace

void attention_items(const detail::AttentionOperands& a, int64_t begin, int64_t end) {
  on_float(a.qkv.dtype(), [&]<class T>() { forward_typed<T>(a, begin, end); });
}

void attention_backward_items(const detail::AttentionOperands& a, int64_t begin, int64_t end) {
  on_float(a.qkv.dtype(), [&]<class T>() { backward_typed<T>(a, begin, end); });
}

void attention_decode_items(const AttentionShape& s, const Tensor& q, const Tensor& cache_k,
                            const Tensor& cache_v, int64_t capacity, Tensor& y, int64_t begin,
                            int64_t end) {
  on_float(q.dtype(), [&]<class T>() {
    std::vector<float> scratch;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / s.heads;
      const int64_t kv = item % s.heads / (s.heads / s.kv_heads);
      const int64_t at = (b * capacity * s.kv_heads + kv) * s.head_dim;
      attend(q.data<T>() + item * s.head_dim, cache_k.data<T>() + at, cache_v.data<T>() + at,
             s.kv_heads * s.head_dim, s.length, s.head_dim, nullptr, y.data<T>() + item * s.head_dim,
             scratch);
    }
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

HWY_EXPORT(attention_items);
HWY_EXPORT(attention_backward_items);
HWY_EXPORT(attention_decode_items);

void check_shape(std::string_view op, const AttentionShape& s) {
  DS_CHECK(s.batch > 0 && s.length > 0 && s.heads > 0 && s.kv_heads > 0 && s.head_dim > 0,
           "{}: batch {}, length {}, heads {}, kv_heads {}, head_dim {}: all must be positive", op,
           s.batch, s.length, s.heads, s.kv_heads, s.head_dim);
  DS_CHECK(s.heads % s.kv_heads == 0, "{}: {} query heads do not divide into {} key heads", op,
           s.heads, s.kv_heads);
}

void require_like(std::string_view op, std::string_view operand, const Stream& stream,
                  const Tensor& tensor, int64_t numel, DType dtype) {
  detail::require_numel(op, operand, stream, tensor, numel);
  detail::require_dtype(op, operand, tensor, dtype);
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
  const int64_t rows = shape.batch * shape.length;
  detail::require_numel(kOp, "qkv", stream, qkv, rows * shape.packed());
  detail::require_float(kOp, "qkv", qkv);
  require_like(kOp, "y", stream, y, rows * shape.heads * shape.head_dim, qkv.dtype());
  require_like(kOp, "log_sum_exp", stream, log_sum_exp, rows * shape.heads, DType::kF32);
  stream.record(kOp, {.flops = 2 * causal_flops(shape),
                      .bytes = static_cast<double>(qkv.bytes() + y.bytes() + log_sum_exp.bytes())});
  on_device(stream.device(), [&](Cpu) {
    const detail::AttentionOperands operands{shape, qkv, y, log_sum_exp, {}, {}, dropout};
    stream.pool().parallel_for(shape.batch * shape.heads, 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(attention_items)(operands, begin, end);
    });
  });
}

void attention_backward(Stream& stream, const AttentionShape& shape, const Tensor& qkv,
                        const Tensor& y, const Tensor& log_sum_exp, const Tensor& dy,
                        Tensor& dqkv, const AttentionDropout& dropout) {
  constexpr std::string_view kOp = "attention_backward";
  check_shape(kOp, shape);
  const int64_t rows = shape.batch * shape.length;
  detail::require_numel(kOp, "qkv", stream, qkv, rows * shape.packed());
  detail::require_float(kOp, "qkv", qkv);
  require_like(kOp, "y", stream, y, rows * shape.heads * shape.head_dim, qkv.dtype());
  require_like(kOp, "dy", stream, dy, y.numel(), qkv.dtype());
  require_like(kOp, "log_sum_exp", stream, log_sum_exp, rows * shape.heads, DType::kF32);
  require_like(kOp, "dqkv", stream, dqkv, qkv.numel(), qkv.dtype());
  stream.record(kOp, {.flops = 5 * causal_flops(shape),
                      .bytes = static_cast<double>(2 * qkv.bytes() + 2 * y.bytes())});
  on_device(stream.device(), [&](Cpu) {
    const detail::AttentionOperands operands{shape, qkv, y, log_sum_exp, dy, dqkv, dropout};
    stream.pool().parallel_for(shape.batch * shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(attention_backward_items)(operands, begin, end);
    });
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
  require_like(kOp, "cache_k", stream, cache_k, cached, q.dtype());
  require_like(kOp, "cache_v", stream, cache_v, cached, q.dtype());
  require_like(kOp, "y", stream, y, numel, q.dtype());
  const auto read =
      static_cast<double>(shape.batch * shape.length * shape.kv_heads * shape.head_dim);
  stream.record(kOp, {.flops = 4 * static_cast<double>(numel * shape.length),
                      .bytes = 2 * read * static_cast<double>(size_of(q.dtype()))});
  on_device(stream.device(), [&](Cpu) {
    stream.pool().parallel_for(shape.batch * shape.heads, 1, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(attention_decode_items)
      (shape, q, cache_k, cache_v, capacity, y, begin, end);
    });
  });
}

}  // namespace ds::kernels
#endif  // HWY_ONCE
