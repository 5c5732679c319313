// Elements by their places on the CPU, shared out among the stream's threads.
#include "kernels/selection/selection_cpu.h"

#include <algorithm>

#include "core/device/dispatch.h"
#include "core/tasks/thread_pool.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kGrain = 4096;  // elements: a thread's share is never smaller than a few pages

template <class T>
void add_squares(const T* x, double* sums, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    const double value = static_cast<float>(x[i]);
    sums[i] += value * value;
  }
}

// The elements of the matrix that lie in rows [row, end), column by column.
template <class T>
void add_rows(const T* x, const MatrixRange& range, int64_t row, int64_t end, double* sums) {
  const int64_t columns = range.columns;
  for (; row < end; ++row) {
    const int64_t begins = std::max(range.first, row * columns);
    const int64_t ends = std::min(range.first + range.numel, (row + 1) * columns);
    add_squares(x + (begins - range.first), sums + (begins - row * columns), ends - begins);
  }
}

}  // namespace

void take_cpu(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to) {
  const int32_t* const at = places.data<int32_t>();
  on_float(to.dtype(), [&]<class T>() {
    const T* const source = from.data<T>();
    T* const target = to.data<T>();
    stream.pool().parallel_for(places.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) target[i] = source[at[i]];
    });
  });
}

void put_cpu(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to) {
  const int32_t* const at = places.data<int32_t>();
  on_float(to.dtype(), [&]<class T>() {
    const T* const source = from.data<T>();
    T* const target = to.data<T>();
    stream.pool().parallel_for(places.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) target[at[i]] = source[i];
    });
  });
}

void add_scaled_cpu(Stream& stream, float factor, const Tensor& x, Tensor& y) {
  float* const sums = y.data<float>();
  on_float(x.dtype(), [&]<class T>() {
    const T* const values = x.data<T>();
    stream.pool().parallel_for(y.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sums[i] += factor * static_cast<float>(values[i]);
    });
  });
}

void column_squares_cpu(Stream& stream, const Tensor& x, const MatrixRange& range, Tensor& parts,
                        Tensor& totals) {
  const int64_t columns = range.columns;
  const int64_t groups = groups_of_rows(range);
  const int64_t first_row = range.first / columns;
  const int64_t end_row = (range.first + range.numel + columns - 1) / columns;
  double* const sums = parts.data<double>();
  double* const all = totals.data<double>();
  on_float(x.dtype(), [&]<class T>() {
    stream.pool().parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) {
        double* const of_group = sums + group * columns;
        std::fill_n(of_group, columns, 0.0);
        const int64_t row = first_row + group * kRowsOfSum;
        add_rows(x.data<T>(), range, row, std::min(end_row, row + kRowsOfSum), of_group);
      }
    });
  });
  stream.pool().parallel_for(columns, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; ++column) {
      double total = 0;
      for (int64_t group = 0; group < groups; ++group) total += sums[group * columns + column];
      all[column] = total;
    }
  });
}

}  // namespace ds::kernels::detail
