// What follows a product whose library does not do it: bias, the value before the activation, and
// the activation, in one pass over c. Arithmetic in fp32 on c as the library rounded it.
#include "core/device/dispatch.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/elementwise/functions.cuh"
#include "kernels/matmul/finish.h"

namespace ds::kernels::detail {
namespace {

using cuda::Pack;

struct Bias {
  const void* values;  // or null
  DType dtype;

  __device__ float at(int64_t column) const {
    if (values == nullptr) return 0.0F;
    if (dtype == DType::kBF16) {
      return static_cast<float>(static_cast<const BF16*>(values)[column]);
    }
    if (dtype == DType::kF16) return static_cast<float>(static_cast<const F16*>(values)[column]);
    return static_cast<const float*>(values)[column];
  }
};

template <int N, class F, class T>
__global__ void finish_kernel(int64_t rows, int64_t columns, int64_t stride, Bias bias, T* c,
                              T* before) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* const of_row = c + row * stride;
    for (int64_t i = int64_t{threadIdx.x} * N; i < columns; i += int64_t{blockDim.x} * N) {
      Pack<T, N> values = cuda::load<N>(of_row + i);
      Pack<T, N> sums;
      for (int j = 0; j < N; ++j) {
        const float sum = static_cast<float>(values.values[j]) + bias.at(i + j);
        sums.values[j] = static_cast<T>(sum);
        values.values[j] = static_cast<T>(F::value(sum));
      }
      if (before != nullptr) cuda::store(sums, before + row * columns + i);
      cuda::store(values, of_row + i);
    }
  }
}

}  // namespace

void finish_product(Stream& stream, const Gemm& gemm) {
  on_float(gemm.c.dtype, [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    auto* const c = static_cast<T*>(const_cast<void*>(gemm.c.data));
    auto* const before = static_cast<T*>(gemm.pre_activation);
    const bool packed =
        cuda::rows_are_packs<kPack>(gemm.n, c, before) && gemm.c.row_stride % kPack == 0;
    cuda::on_activation(gemm.activation, [&]<class F>() {
      cuda::launch("matmul: bias and activation",
                   packed ? finish_kernel<kPack, F, T> : finish_kernel<1, F, T>,
                   cuda::shape_for_rows(gemm.m, packed ? gemm.n / kPack : gemm.n), stream, gemm.m,
                   gemm.n, gemm.c.row_stride, Bias{gemm.bias, gemm.bias_dtype}, c, before);
    });
  });
}

}  // namespace ds::kernels::detail
