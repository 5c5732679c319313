// Operations on whole arrays, element by element: one pass over packs of 16 bytes where the arrays
// lie so, singly otherwise; arithmetic in fp32.
#pragma once

#include <string_view>

#include "kernels/cuda/pack.cuh"

namespace ds::cuda {

// y[i] = op(x[i]...): N elements at a time, then the last ones singly. Operands may be y itself.
template <int N, class Y, class Op, class... X>
__global__ void map_kernel(int64_t numel, Op op, Y* y, const X*... x) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t packs = numel / N;
  for (int64_t p = first; p < packs; p += threads) {
    Pack<Y, N> result;
    [&](const auto&... pack) {
      for (int i = 0; i < N; ++i) {
        result.values[i] = static_cast<Y>(op(static_cast<float>(pack.values[i])...));
      }
    }(load<N>(x + p * N)...);
    store(result, y + p * N);
  }
  for (int64_t i = packs * N + first; i < numel; i += threads) {
    y[i] = static_cast<Y>(op(static_cast<float>(x[i])...));
  }
}

template <class Y, class Op, class... X>
void map(std::string_view name, Stream& stream, int64_t numel, Op op, Y* y, const X*... x) {
  constexpr int kPack = kPackOf<Y, X...>;
  if ((is_aligned<kPack>(y) && ... && is_aligned<kPack>(x))) {
    launch(name, map_kernel<kPack, Y, Op, X...>, shape_for(numel / kPack), stream, numel, op, y,
           x...);
  } else {
    launch(name, map_kernel<1, Y, Op, X...>, shape_for(numel), stream, numel, op, y, x...);
  }
}

}  // namespace ds::cuda
