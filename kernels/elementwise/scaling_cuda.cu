// Scaling by vectors on CUDA devices: a thread reads the numbers of a pack of columns once, and
// goes down several rows with them.
#include <cmath>

#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/elementwise/scaling_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::Pack;

constexpr int64_t kRowsOfThread = 8;

template <class T>
struct Lines {
  T* first;
  int64_t stride;
};
template <class T>
Lines<T> lines_of(const MatrixView& view) {
  return {elements<T>(view.tensor) + view.offset, view.row_stride};
}

template <int N, class T>
bool are_packs(const Lines<T>& lines, int64_t columns) {
  return columns % N == 0 && lines.stride % N == 0 && cuda::is_aligned<N>(lines.first);
}

// The elements of a vector of any dtype; without one, what stands for each of them.
struct VectorNumbers {
  const void* first;
  DType dtype;
  float missing;

  __device__ float at(int64_t i) const {
    if (first == nullptr) return missing;
    switch (dtype) {
      case DType::kBF16:
        return static_cast<float>(static_cast<const BF16*>(first)[i]);
      case DType::kF16:
        return static_cast<float>(static_cast<const F16*>(first)[i]);
      default:
        return static_cast<const float*>(first)[i];
    }
  }
};

VectorNumbers numbers_of(const Tensor& vector, float missing) {
  return {.first = vector.address(), .dtype = vector.dtype(), .missing = missing};
}

template <int N, class TX, class TY>
__global__ void scale_columns_kernel(int64_t rows, int64_t columns, Lines<const TX> x,
                                     VectorNumbers factors, VectorNumbers bias, Lines<TY> y) {
  const int64_t packs = columns / N;
  const int64_t groups = (rows + kRowsOfThread - 1) / kRowsOfThread;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t item = begin; item < groups * packs; item += threads) {
    const int64_t c = item % packs * N;
    const int64_t first = item / packs * kRowsOfThread;
    const int64_t last = first + kRowsOfThread < rows ? first + kRowsOfThread : rows;
    float factor[N], shift[N];
    DS_UNROLL
    for (int i = 0; i < N; ++i) {
      factor[i] = factors.at(c + i);
      shift[i] = bias.at(c + i);
    }
    for (int64_t row = first; row < last; ++row) {
      const Pack<TX, N> from = cuda::load<N>(x.first + row * x.stride + c);
      Pack<TY, N> to;
      DS_UNROLL
      for (int i = 0; i < N; ++i) {
        to.values[i] =
            static_cast<TY>(fmaf(static_cast<float>(from.values[i]), factor[i], shift[i]));
      }
      cuda::store(to, y.first + row * y.stride + c);
    }
  }
}

struct OverRoot {
  __device__ float operator()(float x, float square) const { return x / sqrtf(square); }
};

}  // namespace

void scale_columns_cuda(Stream& stream, const MatrixView& x, const Tensor& factors,
                        const Tensor& bias, const MatrixView& y) {
  on_float(x.tensor.dtype(), [&]<class TX>() {
    on_float(y.tensor.dtype(), [&]<class TY>() {
      constexpr int kPack = cuda::kPackOf<TX, TY>;
      const auto from = lines_of<const TX>(x);
      const auto to = lines_of<TY>(y);
      const bool packed = are_packs<kPack>(from, x.columns) && are_packs<kPack>(to, x.columns);
      const int64_t groups = (x.rows + kRowsOfThread - 1) / kRowsOfThread;
      cuda::launch("scale_columns",
                   packed ? scale_columns_kernel<kPack, TX, TY> : scale_columns_kernel<1, TX, TY>,
                   cuda::shape_for(groups * (packed ? x.columns / kPack : x.columns)), stream,
                   x.rows, x.columns, from, numbers_of(factors, 1.0F), numbers_of(bias, -0.0F), to);
    });
  });
}

void over_roots_cuda(Stream& stream, const Tensor& x, const Tensor& squares, Tensor& y) {
  const auto* of_squares = elements<const float>(squares);
  on_float(x.dtype(), [&]<class TX>() {
    const auto* from = elements<const TX>(x);
    y.dtype() == DType::kF32
        ? cuda::map("over_roots", stream, y.numel(), OverRoot{}, elements<float>(y), from,
                    of_squares)
        : cuda::map("over_roots", stream, y.numel(), OverRoot{}, elements<TX>(y), from, of_squares);
  });
}

}  // namespace ds::kernels::detail
