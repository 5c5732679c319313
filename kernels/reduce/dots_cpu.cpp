// Sums of products on the CPU: a thread sums whole rows, or whole columns, so that their order does
// not depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/dots_cpu.cpp"
#include "kernels/reduce/dots_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/device/dispatch.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

constexpr int kSide = 4;  // vectors side by side: sums that do not wait for each other

template <class T>
struct Lines {
  const T* first;
  int64_t stride;
};
template <class T>
Lines<T> lines_of(const MatrixView& view) {
  return {view.tensor.data<T>() + view.offset, view.row_stride};
}

template <class TA, class TB>
float row_dot(const TA* a, const TB* b, int64_t n) {
  const Lanes d;
  const int64_t lanes = lane_count();
  F32Vector sum[kSide];
  for (F32Vector& one : sum) one = hn::Zero(d);
  int64_t i = 0;
  for (; i + kSide * lanes <= n; i += kSide * lanes) {
    for (int v = 0; v < kSide; ++v) {
      sum[v] = hn::MulAdd(load(d, a + i + v * lanes), load(d, b + i + v * lanes), sum[v]);
    }
  }
  for (; i < n; i += lanes) {
    const int64_t count = at_most_lanes(n - i);
    sum[0] = hn::MulAdd(get(d, a + i, count), get(d, b + i, count), sum[0]);
  }
  return sum_lanes(d, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])));
}

// sums = those of the first `width` columns, at most kVectors vectors. Rows are added up in groups,
// and the groups in order, as those of column_sum().
template <int kVectors, class TA, class TB>
void column_dots_typed(const Lines<TA>& a, const Lines<TB>& b, int64_t rows, int64_t width,
                       float* sums) {
  constexpr int64_t kGroup = 64;
  const Lanes d;
  const auto place = [&](int v) { return v * lane_count(); };
  const auto count = [&](int v) { return at_most_lanes(width - place(v)); };
  F32Vector total[kVectors];
  for (F32Vector& one : total) one = hn::Zero(d);
  for (int64_t first = 0; first < rows; first += kGroup) {
    const int64_t last = first + kGroup < rows ? first + kGroup : rows;
    F32Vector part[kVectors];
    for (F32Vector& one : part) one = hn::Zero(d);
    for (int64_t row = first; row < last; ++row) {
      const TA* of_a = a.first + row * a.stride;
      const TB* of_b = b.first + row * b.stride;
      for (int v = 0; v < kVectors; ++v) {
        part[v] = hn::MulAdd(get(d, of_a + place(v), count(v)), get(d, of_b + place(v), count(v)),
                             part[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) total[v] = hn::Add(total[v], part[v]);
  }
  for (int v = 0; v < kVectors; ++v) store(total[v], d, sums + place(v));
}

template <class T>
void write_sums(const float* sums, int64_t count, Write write, T* out) {
  const Lanes d;
  for (int64_t i = 0; i < count; i += lane_count()) {
    const int64_t n = at_most_lanes(count - i);
    const auto sum = load(d, sums + i);
    put(write == Write::kAccumulate ? hn::Add(get(d, out + i, n), sum) : sum, d, out + i, n);
  }
}

}  // namespace

void row_dots_range(const MatrixView& a, const MatrixView& b, Write write, Tensor& out,
                    int64_t begin, int64_t end) {
  float* const sums = out.data<float>();
  on_float(a.tensor.dtype(), [&]<class TA>() {
    on_float(b.tensor.dtype(), [&]<class TB>() {
      const Lines<TA> of_a = lines_of<TA>(a);
      const Lines<TB> of_b = lines_of<TB>(b);
      for (int64_t row = begin; row < end; ++row) {
        const float sum =
            row_dot(of_a.first + row * of_a.stride, of_b.first + row * of_b.stride, a.columns);
        sums[row] = write == Write::kAccumulate ? sums[row] + sum : sum;
      }
    });
  });
}

void column_dots_range(const MatrixView& a, const MatrixView& b, Write write, Tensor& out,
                       int64_t begin, int64_t end) {
  HWY_ALIGN float sums[to_size(kSide) * hn::MaxLanes(Lanes())];
  const int64_t side = kSide * lane_count();
  int64_t width = 0;
  for (int64_t c = begin; c < end; c += width) {
    const bool is_wide = c + side <= end;
    width = is_wide ? side : at_most_lanes(end - c);
    on_float(a.tensor.dtype(), [&]<class TA>() {
      on_float(b.tensor.dtype(), [&]<class TB>() {
        Lines<TA> of_a = lines_of<TA>(a);
        Lines<TB> of_b = lines_of<TB>(b);
        of_a.first += c;
        of_b.first += c;
        is_wide ? column_dots_typed<kSide>(of_a, of_b, a.rows, width, sums)
                : column_dots_typed<1>(of_a, of_b, a.rows, width, sums);
      });
    });
    on_float(out.dtype(), [&]<class T>() { write_sums(sums, width, write, out.data<T>() + c); });
  }
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(row_dots_range);
DS_SIMD_EXPORT(column_dots_range);

}  // namespace

namespace detail {

void row_dots_cpu(Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
                  Tensor& out) {
  constexpr int64_t kGrain = 4096;  // elements: less is not worth a thread
  const int64_t rows = std::max<int64_t>(kGrain / std::max<int64_t>(a.columns, 1), 1);
  stream.pool().parallel_for(a.rows, rows, [&](int64_t begin, int64_t end) {
    DS_SIMD(row_dots_range)(a, b, write, out, begin, end);
  });
}

void column_dots_cpu(Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
                     Tensor& out) {
  stream.pool().parallel_for(a.columns, 64, [&](int64_t begin, int64_t end) {
    DS_SIMD(column_dots_range)(a, b, write, out, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
