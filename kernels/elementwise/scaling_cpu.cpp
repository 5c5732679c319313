// Scaling by vectors on the CPU: vectors of columns go down the rows that are a thread's.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/scaling_cpu.cpp"
#include "kernels/elementwise/scaling_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <type_traits>

#include "core/device/dispatch.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/elementwise/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

template <class TX, class TY>
void scale_row(const TX* x, const float* factors, const float* shifts, int64_t n, TY* y) {
  const Lanes d;
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    const auto factor = get(d, factors + i, count), shift = get(d, shifts + i, count);
    put(hn::MulAdd(get(d, x + i, count), factor, shift), d, y + i, count);
  }
}

template <class TX, class TY>
void over_roots_typed(const TX* x, const float* squares, int64_t n, TY* y) {
  const Lanes d;
  for (int64_t i = 0; i < n; i += lane_count()) {
    const int64_t count = at_most_lanes(n - i);
    put(hn::Div(get(d, x + i, count), hn::Sqrt(get(d, squares + i, count))), d, y + i, count);
  }
}

}  // namespace

void scale_rows(const MatrixView& x, const float* factors, const float* shifts, const MatrixView& y,
                int64_t begin, int64_t end) {
  on_float(x.tensor.dtype(), [&]<class TX>() {
    on_float(y.tensor.dtype(), [&]<class TY>() {
      const TX* from = x.tensor.data<TX>() + x.offset;
      TY* to = y.tensor.data<TY>() + y.offset;
      for (int64_t row = begin; row < end; ++row) {
        scale_row(from + row * x.row_stride, factors, shifts, x.columns, to + row * y.row_stride);
      }
    });
  });
}

void over_roots_range(const Tensor& x, const Tensor& squares, Tensor& y, int64_t begin,
                      int64_t end) {
  const float* const of_range = squares.data<float>() + begin;
  on_float(x.dtype(), [&]<class TX>() {
    const TX* from = x.data<TX>() + begin;
    if constexpr (!std::is_same_v<TX, float>) {
      if (y.dtype() != DType::kF32) {
        return over_roots_typed(from, of_range, end - begin, y.data<TX>() + begin);
      }
    }
    over_roots_typed(from, of_range, end - begin, y.data<float>() + begin);
  });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(scale_rows);
DS_SIMD_EXPORT(over_roots_range);

constexpr int64_t kGrain = 4096;  // elements: a thread's share is never smaller than a few pages

// Elements [first, first + count) in fp32; of no tensor, what stands for each of them.
void read(const Tensor& vector, int64_t first, int64_t count, float missing, float* to) {
  if (!vector.defined()) {
    std::fill_n(to, count, missing);
    return;
  }
  const Tensor part = vector.narrow(first, count);
  detail::cast_span(part.raw(), part.dtype(), to, DType::kF32, count);
}

}  // namespace

namespace detail {

void scale_columns_cpu(Stream& stream, const MatrixView& x, const Tensor& factors,
                       const Tensor& bias, const MatrixView& y) {
  constexpr int64_t kColumns = 1024;  // whose factors and shifts stay in the first cache
  const int64_t rows = std::max<int64_t>(kGrain / std::max<int64_t>(x.columns, 1), 1);
  stream.pool().parallel_for(x.rows, rows, [&](int64_t begin, int64_t end) {
    float factor[kColumns], shift[kColumns];
    for (int64_t first = 0; first < x.columns; first += kColumns) {
      const int64_t count = std::min(kColumns, x.columns - first);
      read(factors, first, count, 1.0F, factor);
      read(bias, first, count, -0.0F, shift);  // to which -0 adds up to itself
      DS_SIMD(scale_rows)
      (columns_of(x, first, count), factor, shift, columns_of(y, first, count), begin, end);
    }
  });
}

void over_roots_cpu(Stream& stream, const Tensor& x, const Tensor& squares, Tensor& y) {
  stream.pool().parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    DS_SIMD(over_roots_range)(x, squares, y, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
