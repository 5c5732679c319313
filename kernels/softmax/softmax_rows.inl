// Rows of logits in vectors, for the sources of kernels/softmax. Included once per target by files
// of Highway's foreach_target.
#if defined(DS_KERNELS_SOFTMAX_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_KERNELS_SOFTMAX_ROWS_INL
#undef DS_KERNELS_SOFTMAX_ROWS_INL
#else
#define DS_KERNELS_SOFTMAX_ROWS_INL
#endif

#include <algorithm>

#include "kernels/cpu/simd.inl"
#include "kernels/softmax/softmax_operands.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE float row_max(const T* x, int64_t n) {
  const Lanes d;
  auto best = hn::Set(d, static_cast<float>(x[0]));
  int64_t i = 0;
  for (; i + lane_count() <= n; i += lane_count()) best = hn::Max(best, load(d, x + i));
  float result = max_lanes(d, best);
  for (; i < n; ++i) result = std::max(result, static_cast<float>(x[i]));
  return result;
}

// Sum of e^((x - shift) factor).
template <class T>
HWY_INLINE float row_exp_sum(const T* x, float shift, float factor, int64_t n) {
  const Lanes d;
  const auto offset = hn::Set(d, shift);
  const auto scale = hn::Set(d, factor);
  auto total = hn::Zero(d);
  int64_t i = 0;
  for (; i + lane_count() <= n; i += lane_count()) {
    total = hn::Add(total, exp(d, hn::Mul(hn::Sub(load(d, x + i), offset), scale)));
  }
  if (i < n) {
    const int64_t count = n - i;
    const auto e = exp(d, hn::Mul(hn::Sub(load_n(d, x + i, count), offset), scale));
    total = hn::Add(total, hn::IfThenElseZero(hn::FirstN(d, to_size(count)), e));
  }
  return sum_lanes(d, total);
}

// What gradients of logits capped at c are multiplied by. A cap that 16 bits cannot hold may have
// been rounded to above itself.
HWY_INLINE float slope_of_cap(float logit, float c) {
  if (c == 0) return 1.0F;
  const float t = logit / c;
  return std::max(1.0F - t * t, 0.0F);
}

HWY_INLINE F32Vector slope_of_cap(Lanes d, F32Vector logit, F32Vector inverse) {
  const auto t = hn::Mul(logit, inverse);
  return hn::Max(hn::NegMulAdd(t, t, hn::Set(d, 1.0F)), hn::Zero(d));
}

template <class T>
HWY_INLINE T* row_of(const MatrixView& logits, int64_t row) {
  return logits.tensor.data<T>() + logits.offset + row * logits.row_stride;
}

HWY_INLINE const float* row_weights_of(const SoftmaxCrossEntropyArgs& args) {
  return args.row_weights.defined() ? args.row_weights.data<float>() : nullptr;
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
