// The rows of experts on CUDA devices: a block has a row, whose threads go along it in packs. Sums
// over choices run in their order.
#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/flags.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/moe/cuda/expert_rows_cuda.h"
#include "kernels/quantize/levels.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::Pack;

template <class T>
struct There {
  RowsOfTokens shape;
  int64_t tokens = 0, rows = 0;
  const T* x = nullptr;
  const int32_t* order = nullptr;
  const float* weights = nullptr;  // or null
  T* to = nullptr;
  uint32_t* flags = nullptr;
};

template <int N, class T>
__global__ void gather_kernel(There<T> of) {
  const int64_t columns = of.shape.columns;
  for (int64_t i = blockIdx.x; i < of.rows; i += gridDim.x) {
    const int64_t choice = of.order[i];
    const bool is_known = choice >= 0 && choice < of.tokens * of.shape.choices;
    if (!is_known && choice != -1 && threadIdx.x == 0) {
      cuda::set_flag(DeviceFlag::kPlaceOutsideRows, of.flags);
    }
    const T* const from = of.x + (is_known ? choice / of.shape.choices * columns : 0);
    for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
      Pack<T, N> row = {};
      if (is_known) row = cuda::load<N>(from + c);
      if (is_known && of.weights != nullptr) {
        const float weight = of.weights[choice];
        for (T& value : row.values) value = static_cast<T>(weight * static_cast<float>(value));
      }
      cuda::store(row, of.to + i * columns + c);
    }
  }
}

template <class T>
struct Back {
  RowsOfTokens shape;
  int64_t tokens = 0, rows = 0;
  const T* from = nullptr;
  const int32_t* place = nullptr;
  float* weights = nullptr;  // or null
  T* y = nullptr;
  uint32_t* flags = nullptr;
};

// -1 for none.
template <class T>
__device__ int64_t place_of(const Back<T>& of, int64_t choice) {
  const int64_t place = of.place[choice];
  if (place >= -1 && place < of.rows) return place;
  if (threadIdx.x == 0) cuda::set_flag(DeviceFlag::kPlaceOutsideRows, of.flags);
  return -1;
}

template <int N, class T>
__global__ void return_kernel(Back<T> of) {
  const int64_t columns = of.shape.columns;
  for (int64_t n = blockIdx.x; n < of.tokens; n += gridDim.x) {
    for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
      float total[N] = {};
      for (int64_t j = 0; j < of.shape.choices; ++j) {
        const int64_t choice = n * of.shape.choices + j;
        const int64_t place = place_of(of, choice);
        if (place < 0) continue;
        const float weight = of.weights == nullptr ? 1.0F : of.weights[choice];
        const Pack<T, N> row = cuda::load<N>(of.from + place * columns + c);
        for (int i = 0; i < N; ++i) {
          total[i] += product(weight, static_cast<float>(row.values[i]));
        }
      }
      Pack<T, N> result;
      for (int i = 0; i < N; ++i) result.values[i] = static_cast<T>(total[i]);
      cuda::store(result, of.y + n * columns + c);
    }
  }
}

// A block has a choice.
template <int N, class T>
__global__ void dots_kernel(Back<T> of) {
  const int64_t columns = of.shape.columns;
  for (int64_t i = blockIdx.x; i < of.tokens * of.shape.choices; i += gridDim.x) {
    const int64_t place = place_of(of, i);
    float sum = 0;
    if (place >= 0) {
      const T* const a = of.y + i / of.shape.choices * columns;
      const T* const b = of.from + place * columns;
      for (int64_t c = int64_t{threadIdx.x} * N; c < columns; c += int64_t{blockDim.x} * N) {
        const Pack<T, N> left = cuda::load<N>(a + c), right = cuda::load<N>(b + c);
        for (int k = 0; k < N; ++k) {
          sum += static_cast<float>(left.values[k]) * static_cast<float>(right.values[k]);
        }
      }
    }
    sum = cuda::block_sum(sum);
    if (threadIdx.x == 0) of.weights[i] = sum;
  }
}

template <class T>
Back<T> back_of(Stream& stream, const RowsBack& args) {
  return {.shape = args.shape,
          .tokens = args.y.numel() / args.shape.columns,
          .rows = args.rows.numel() / args.shape.columns,
          .from = elements<const T>(args.rows),
          .place = elements<const int32_t>(args.place),
          .weights = elements<float>(args.weights),
          .y = elements<T>(args.y),
          .flags = DeviceFlags(stream).word()};
}

}  // namespace

void gather_expert_rows_cuda(Stream& stream, const RowsThere& args) {
  on_float(args.x.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const There<T> of{.shape = args.shape,
                      .tokens = args.x.numel() / args.shape.columns,
                      .rows = args.order.numel(),
                      .x = elements<const T>(args.x),
                      .order = elements<const int32_t>(args.order),
                      .weights = elements<const float>(args.weights),
                      .to = elements<T>(args.rows),
                      .flags = DeviceFlags(stream).word()};
    const int64_t columns = args.shape.columns;
    const bool packed = cuda::rows_are_packs<kPack>(columns, of.x, of.to);
    cuda::launch("gather_expert_rows", packed ? gather_kernel<kPack, T> : gather_kernel<1, T>,
                 cuda::shape_for_rows(of.rows, packed ? columns / kPack : columns), stream, of);
  });
}

void return_expert_rows_cuda(Stream& stream, const RowsBack& args) {
  on_float(args.rows.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const Back<T> of = back_of<T>(stream, args);
    const int64_t columns = args.shape.columns;
    const bool packed = cuda::rows_are_packs<kPack>(columns, of.from, of.y);
    cuda::launch("return_expert_rows", packed ? return_kernel<kPack, T> : return_kernel<1, T>,
                 cuda::shape_for_rows(of.tokens, packed ? columns / kPack : columns), stream, of);
  });
}

void expert_row_dots_cuda(Stream& stream, const RowsBack& args) {
  on_float(args.rows.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    const Back<T> of = back_of<T>(stream, args);
    const int64_t columns = args.shape.columns;
    const bool packed = cuda::rows_are_packs<kPack>(columns, of.from, of.y);
    cuda::launch(
        "expert_row_dots", packed ? dots_kernel<kPack, T> : dots_kernel<1, T>,
        cuda::shape_for_rows(of.tokens * args.shape.choices, packed ? columns / kPack : columns),
        stream, of);
  });
}

}  // namespace ds::kernels::detail
