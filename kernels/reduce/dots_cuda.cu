// Sums of products on CUDA devices. A block sums a row at a time, whose threads take packs of
// neighbours in steps of the block; whether packs can be read at once changes no order. Columns are
// summed as those of columns.cuh.
#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/reduce/dots_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

template <class T>
struct Lines {
  const T* first;
  int64_t stride;

  __device__ const T* at(int64_t row) const { return first + row * stride; }
};
template <class T>
Lines<T> lines_of(const MatrixView& view) {
  return {elements<const T>(view.tensor) + view.offset, view.row_stride};
}

template <int N, class T>
bool begin_with_packs(const Lines<T>& lines) {
  return cuda::is_aligned<N>(lines.first) && lines.stride % N == 0;
}

template <class TA, class TB>
__global__ void row_dots_kernel(int64_t rows, int64_t columns, Lines<TA> a, Lines<TB> b,
                                bool packed, bool accumulate, float* out) {
  constexpr int kPack = cuda::kPackOf<TA, TB>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const TA* const of_a = a.at(row);
    const TB* const of_b = b.at(row);
    float sum = 0;
    for (int64_t c = int64_t{threadIdx.x} * kPack; c < columns; c += int64_t{blockDim.x} * kPack) {
      if (packed && c + kPack <= columns) {
        const cuda::Pack<TA, kPack> x = cuda::load<kPack>(of_a + c);
        const cuda::Pack<TB, kPack> y = cuda::load<kPack>(of_b + c);
        DS_UNROLL
        for (int i = 0; i < kPack; ++i) {
          sum = fmaf(static_cast<float>(x.values[i]), static_cast<float>(y.values[i]), sum);
        }
      } else {
        for (int64_t i = c; i < c + kPack && i < columns; ++i) {
          sum = fmaf(static_cast<float>(of_a[i]), static_cast<float>(of_b[i]), sum);
        }
      }
    }
    sum = cuda::block_sum(sum);
    if (threadIdx.x == 0) out[row] = accumulate ? out[row] + sum : sum;
  }
}

template <class TA, class TB>
struct ProductTerm {
  Lines<TA> a;
  Lines<TB> b;
  __device__ void operator()(int64_t row, int64_t column, float* sums) const {
    sums[0] =
        fmaf(static_cast<float>(a.at(row)[column]), static_cast<float>(b.at(row)[column]), sums[0]);
  }
};

}  // namespace

void row_dots_cuda(Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
                   Tensor& out) {
  on_float(a.tensor.dtype(), [&]<class TA>() {
    on_float(b.tensor.dtype(), [&]<class TB>() {
      constexpr int kPack = cuda::kPackOf<TA, TB>;
      const Lines<TA> of_a = lines_of<TA>(a);
      const Lines<TB> of_b = lines_of<TB>(b);
      const bool packed = begin_with_packs<kPack>(of_a) && begin_with_packs<kPack>(of_b);
      cuda::launch("row_dots", row_dots_kernel<TA, TB>,
                   cuda::shape_for_rows(a.rows, (a.columns + kPack - 1) / kPack), stream, a.rows,
                   a.columns, of_a, of_b, packed, write == Write::kAccumulate,
                   elements<float>(out));
    });
  });
}

void column_dots_cuda(Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
                      Tensor& out) {
  on_float(a.tensor.dtype(), [&]<class TA>() {
    on_float(b.tensor.dtype(), [&]<class TB>() {
      const ProductTerm<TA, TB> term{lines_of<TA>(a), lines_of<TB>(b)};
      const cuda::ColumnSums<1> sums("column_dots", stream, a.rows, a.columns, term);
      on_float(out.dtype(), [&]<class T>() {
        const bool accumulate = write == Write::kAccumulate;
        sums.write(stream, cuda::ColumnTotals<1, T>{{{elements<T>(out), accumulate}}});
      });
    });
  });
}

}  // namespace ds::kernels::detail
