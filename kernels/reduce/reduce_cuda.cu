// Reductions on CUDA devices, in an order that depends on the number of elements and their type
// alone: threads take packs of neighbours in steps of their block, and the sums of blocks are added
// by one block.
#include <cmath>

#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/reduce/reduce_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

constexpr int kThreads = 256;

// use(element) for those in [begin, end) that are this thread's, of `threads` from `first` on, in
// order. `begin` is a multiple of a pack; whether packs can be read at once changes no order.
template <class T, class Use>
__device__ void for_each_of(const T* x, int64_t begin, int64_t end, int64_t first, int64_t threads,
                            bool aligned, const Use& use) {
  constexpr int kPack = cuda::kPackOf<T>;
  for (int64_t i = begin + first * kPack; i < end; i += threads * kPack) {
    if (aligned && i + kPack <= end) {
      const cuda::Pack<T, kPack> pack = cuda::load<kPack>(x + i);
      DS_UNROLL
      for (int j = 0; j < kPack; ++j) use(pack.values[j]);
    } else {
      for (int64_t j = i; j < i + kPack && j < end; ++j) use(x[j]);
    }
  }
}

template <bool kSquare, class T>
__global__ void block_sums_kernel(int64_t numel, int64_t blocks, const T* x, bool aligned,
                                  double* sums) {
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t begin = block * kSumBlock;
    const int64_t end = begin + kSumBlock < numel ? begin + kSumBlock : numel;
    double sum = 0;
    for_each_of(x, begin, end, threadIdx.x, blockDim.x, aligned, [&](T element) {
      const auto value = static_cast<double>(static_cast<float>(element));
      sum += kSquare ? value * value : value;
    });
    sum = cuda::block_sum(sum);
    if (threadIdx.x == 0) sums[block] = sum;
  }
}

// One block: each thread adds neighbouring sums in order, and then the threads are added.
__global__ void total_kernel(int64_t count, const double* sums, double divisor, bool accumulate,
                             double* total) {
  const int64_t share = (count + blockDim.x - 1) / blockDim.x;
  const int64_t begin = share * threadIdx.x;
  const int64_t end = begin + share < count ? begin + share : count;
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += sums[i];
  sum = cuda::block_sum(sum) / divisor;
  if (threadIdx.x == 0) *total = accumulate ? *total + sum : sum;
}

// One block. Threads take elements in steps of it, and halves of the threads join.
__global__ void largest_kernel(int64_t numel, const float* x, double* total) {
  DS_SHARED(float, largest, kThreads);
  float mine = -INFINITY;
  for (int64_t i = threadIdx.x; i < numel; i += blockDim.x) mine = x[i] > mine ? x[i] : mine;
  largest[threadIdx.x] = mine;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half && largest[threadIdx.x + half] > largest[threadIdx.x]) {
      largest[threadIdx.x] = largest[threadIdx.x + half];
    }
  }
  if (threadIdx.x == 0) *total = static_cast<double>(largest[0]);
}

// One thread: they are few, and their order is what counts.
__global__ void add_in_order_kernel(int64_t count, const double* numbers, double* total) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  for (int64_t i = 0; i < count; ++i) *total += numbers[i];
}

template <class T>
__global__ void finite_kernel(int64_t numel, const T* x, bool aligned, int32_t* finite) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for_each_of(x, 0, numel, first, threads, aligned, [&](T element) {
    const float size = fabsf(static_cast<float>(element));
    if (!(size < INFINITY)) *finite = 0;  // NaN, too; whoever writes, writes the same
  });
}

template <class T>
struct ElementTerm {
  const T* x;
  int64_t stride;
  __device__ void operator()(int64_t row, int64_t column, float* sums) const {
    sums[0] += static_cast<float>(x[row * stride + column]);
  }
};

template <class T>
bool begins_with_pack(const Tensor& x) {
  return cuda::is_aligned<cuda::kPackOf<T>>(elements<const T>(x));
}

template <bool kSquare>
void sum(std::string_view name, Stream& stream, const Tensor& x, double divisor, Write write,
         const Tensor& total) {
  const int64_t blocks = (x.numel() + kSumBlock - 1) / kSumBlock;
  const Tensor sums = Tensor::empty({blocks}, DType::kF64, stream, MemoryTag::kScratch);
  on_float(x.dtype(), [&]<class T>() {
    cuda::launch(name, block_sums_kernel<kSquare, T>, cuda::shape_for(blocks * kThreads, kThreads),
                 stream, x.numel(), blocks, elements<const T>(x), begins_with_pack<T>(x),
                 elements<double>(sums));
  });
  cuda::launch(name, total_kernel, {.blocks = 1, .threads = kThreads}, stream, blocks,
               elements<const double>(sums), divisor, write == Write::kAccumulate,
               elements<double>(total));
}

}  // namespace

void sum_into_cuda(Stream& stream, const Tensor& x, double divisor, Write write,
                   const Tensor& total) {
  sum<false>("sum_into", stream, x, divisor, write, total);
}

void sum_of_squares_into_cuda(Stream& stream, const Tensor& x, Write write, const Tensor& total) {
  sum<true>("sum_of_squares_into", stream, x, 1.0, write, total);
}

void largest_into_cuda(Stream& stream, const Tensor& x, const Tensor& total) {
  cuda::launch("largest_into", largest_kernel, {.blocks = 1, .threads = kThreads}, stream,
               x.numel(), elements<const float>(x), elements<double>(total));
}

void add_in_order_cuda(Stream& stream, const Tensor& numbers, const Tensor& total) {
  cuda::launch("add_in_order", add_in_order_kernel, {.blocks = 1, .threads = 1}, stream,
               numbers.numel(), elements<const double>(numbers), elements<double>(total));
}

bool all_finite_cuda(Stream& stream, const Tensor& x) {
  int32_t finite = 1;
  const Tensor flag = Tensor::empty({1}, DType::kI32, stream, MemoryTag::kScratch);
  stream.copy(&finite, flag.address(), sizeof(finite));
  on_float(x.dtype(), [&]<class T>() {
    const int64_t packs = (x.numel() + cuda::kPackOf<T> - 1) / cuda::kPackOf<T>;
    cuda::launch("all_finite", finite_kernel<T>, cuda::shape_for(packs), stream, x.numel(),
                 elements<const T>(x), begins_with_pack<T>(x), elements<int32_t>(flag));
  });
  stream.copy(flag.address(), &finite, sizeof(finite));
  return finite != 0;
}

Tensor column_sum_scratch(Stream& stream, const MatrixView& x) {
  return cuda::ColumnSums<1>::scratch(stream, x.rows, x.columns);
}

void column_sum_cuda(Stream& stream, const MatrixView& x, Write write, Tensor& y) {
  on_float(x.tensor.dtype(), [&]<class TX>() {
    const ElementTerm<TX> term{elements<const TX>(x.tensor) + x.offset, x.row_stride};
    const cuda::ColumnSums<1> sums("column_sum", stream, x.rows, x.columns, term);
    on_float(y.dtype(), [&]<class TY>() {
      const bool accumulate = write == Write::kAccumulate;
      sums.write(stream, cuda::ColumnTotals<1, TY>{{{elements<TY>(y), accumulate}}});
    });
  });
}

}  // namespace ds::kernels::detail
