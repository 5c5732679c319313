// Elements by their places on CUDA devices: a thread each; and sums down columns, a thread for each
// column of a group of rows, then one for each column.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/selection/selection_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

struct PlusTimes {
  float factor;
  __device__ float operator()(float a, float b) const { return a + b * factor; }
};

template <class T>
__global__ void take_kernel(int64_t count, const T* from, const int32_t* places, T* to) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < count; i += threads) to[i] = from[places[i]];
}

template <class T>
__global__ void put_kernel(int64_t count, const T* from, const int32_t* places, T* to) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < count; i += threads) to[places[i]] = from[i];
}

template <class T>
__global__ void square_parts_kernel(MatrixRange range, int64_t groups, const T* x, double* parts) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t columns = range.columns;
  const int64_t end = range.first + range.numel;
  for (int64_t i = begin; i < groups * columns; i += threads) {
    const int64_t row = range.first / columns + i / columns * kRowsOfSum;
    double sum = 0;
    for (int64_t r = row; r < row + kRowsOfSum; ++r) {
      const int64_t at = r * columns + i % columns;
      if (at < range.first || at >= end) continue;
      const double value = static_cast<float>(x[at - range.first]);
      sum += value * value;
    }
    parts[i] = sum;
  }
}

__global__ void square_totals_kernel(int64_t groups, int64_t columns, const double* parts,
                                     double* totals) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t column = begin; column < columns; column += threads) {
    double total = 0;
    for (int64_t group = 0; group < groups; ++group) total += parts[group * columns + column];
    totals[column] = total;
  }
}

}  // namespace

void take_cuda(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to) {
  on_float(to.dtype(), [&]<class T>() {
    cuda::launch("take", take_kernel<T>, cuda::shape_for(places.numel()), stream, places.numel(),
                 elements<const T>(from), elements<const int32_t>(places), elements<T>(to));
  });
}

void put_cuda(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to) {
  on_float(to.dtype(), [&]<class T>() {
    cuda::launch("put", put_kernel<T>, cuda::shape_for(places.numel()), stream, places.numel(),
                 elements<const T>(from), elements<const int32_t>(places), elements<T>(to));
  });
}

void add_scaled_cuda(Stream& stream, float factor, const Tensor& x, Tensor& y) {
  on_float(x.dtype(), [&]<class T>() {
    cuda::map("add_scaled", stream, y.numel(), PlusTimes{factor}, elements<float>(y),
              elements<const float>(y), elements<const T>(x));
  });
}

void column_squares_cuda(Stream& stream, const Tensor& x, const MatrixRange& range, Tensor& parts,
                         Tensor& totals) {
  const int64_t groups = groups_of_rows(range);
  on_float(x.dtype(), [&]<class T>() {
    cuda::launch("column_squares", square_parts_kernel<T>, cuda::shape_for(groups * range.columns),
                 stream, range, groups, elements<const T>(x), elements<double>(parts));
  });
  cuda::launch("column_squares", square_totals_kernel, cuda::shape_for(range.columns), stream,
               groups, range.columns, elements<const double>(parts), elements<double>(totals));
}

}  // namespace ds::kernels::detail
