// Means over rows on CUDA devices: a thread for each column of a sample.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/pooling/pooling_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

struct Extents {
  int64_t samples, length, width;
};

template <class T>
__global__ void mean_rows_kernel(Extents extents, const T* x, const int32_t* ranges, T* y) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < extents.samples * extents.width; i += threads) {
    const int64_t sample = i / extents.width, column = i % extents.width;
    const int32_t* const range = ranges + sample * extents.length * 2;
    const int64_t at = sample * extents.length * extents.width + column;
    float sum = 0;
    for (int64_t row = range[0]; row < range[1]; ++row) {
      sum += static_cast<float>(x[at + row * extents.width]);
    }
    const int32_t count = range[1] > range[0] ? range[1] - range[0] : 1;
    y[at] = static_cast<T>(sum / static_cast<float>(count));
    for (int64_t row = 1; row < extents.length; ++row) {
      y[at + row * extents.width] = static_cast<T>(0.0F);
    }
  }
}

template <class T>
__global__ void mean_rows_backward_kernel(Extents extents, const T* dy, const int32_t* ranges,
                                          T* dx) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < extents.samples * extents.width; i += threads) {
    const int64_t sample = i / extents.width, column = i % extents.width;
    const int32_t* const range = ranges + sample * extents.length * 2;
    const int64_t at = sample * extents.length * extents.width + column;
    const int32_t count = range[1] > range[0] ? range[1] - range[0] : 1;
    const float share = static_cast<float>(dy[at]) / static_cast<float>(count);
    for (int64_t row = 0; row < extents.length; ++row) {
      const bool is_in = row >= range[0] && row < range[1];
      dx[at + row * extents.width] = static_cast<T>(is_in ? share : 0.0F);
    }
  }
}

Extents extents_of(const Tensor& values, const Tensor& ranges, int64_t length) {
  return {.samples = ranges.numel() / (2 * length), .length = length, .width = values.shape()[1]};
}

}  // namespace

void mean_rows_cuda(Stream& stream, const Tensor& x, const Tensor& ranges, int64_t length,
                    Tensor& y) {
  const Extents extents = extents_of(x, ranges, length);
  on_float(x.dtype(), [&]<class T>() {
    cuda::launch("mean_rows", mean_rows_kernel<T>, cuda::shape_for(extents.samples * extents.width),
                 stream, extents, elements<const T>(x), elements<const int32_t>(ranges),
                 elements<T>(y));
  });
}

void mean_rows_backward_cuda(Stream& stream, const Tensor& dy, const Tensor& ranges, int64_t length,
                             Tensor& dx) {
  const Extents extents = extents_of(dy, ranges, length);
  on_float(dy.dtype(), [&]<class T>() {
    cuda::launch("mean_rows_backward", mean_rows_backward_kernel<T>,
                 cuda::shape_for(extents.samples * extents.width), stream, extents,
                 elements<const T>(dy), elements<const int32_t>(ranges), elements<T>(dx));
  });
}

}  // namespace ds::kernels::detail
