// Rotary position embedding on CUDA devices. A block takes one position of a few samples, so that
// its angles, which take fp64 to be those of the CPU, are computed once and kept in shared memory.
#include <algorithm>
#include <cmath>

#include "core/dispatch.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rows.cuh"

namespace ds::kernels::detail {
namespace {

using cuda::Pack;

constexpr int kThreads = 256;
constexpr int kPairs = 256;              // of a head, whose angles are kept at a time
constexpr int64_t kEnoughBlocks = 2048;  // to fill any GPU; more only compute angles again

struct Turn {
  int64_t batch, length, packed;
  int heads, half;
  float theta, sign;
  int64_t first_position;
};

// Angles as in rope.cpp: frequency and angle are rounded to fp32, their functions are not.
__device__ void angles(const Turn& turn, int64_t t, int first, int pairs, float* cosine,
                       float* sine) {
  for (int i = static_cast<int>(threadIdx.x); i < pairs; i += static_cast<int>(blockDim.x)) {
    const float exponent = static_cast<float>(2 * (first + i)) / static_cast<float>(2 * turn.half);
    const auto power =
        static_cast<float>(pow(static_cast<double>(turn.theta), static_cast<double>(exponent)));
    const float frequency = 1.0F / power;
    const double angle = static_cast<float>(turn.first_position + t) * frequency;
    cosine[i] = static_cast<float>(cos(angle));
    sine[i] = static_cast<float>(sin(angle)) * turn.sign;
  }
}

// Pairs [first, first + pairs) of all heads of a row.
template <int N, class T>
__device__ void rotate_row(const Turn& turn, int first, int pairs, const float* cosine,
                           const float* sine, T* row) {
  const int packs = pairs / N;
  const int step = static_cast<int>(blockDim.x);
  for (int item = static_cast<int>(threadIdx.x); item < turn.heads * packs; item += step) {
    const int head = item / packs;
    const int i = item % packs * N;
    T* const a = row + int64_t{head} * 2 * turn.half + first + i;
    T* const b = a + turn.half;
    Pack<T, N> low = cuda::load<N>(static_cast<const T*>(a));
    Pack<T, N> high = cuda::load<N>(static_cast<const T*>(b));
    for (int k = 0; k < N; ++k) {
      const auto x = static_cast<float>(low.values[k]);
      const auto y = static_cast<float>(high.values[k]);
      low.values[k] = static_cast<T>(fmaf(x, cosine[i + k], -(y * sine[i + k])));
      high.values[k] = static_cast<T>(fmaf(y, cosine[i + k], x * sine[i + k]));
    }
    cuda::store(low, a);
    cuda::store(high, b);
  }
}

template <int N, class T>
__global__ void rope_kernel(Turn turn, T* qkv) {
  DS_SHARED(float, cosine, kPairs);
  DS_SHARED(float, sine, kPairs);
  const int64_t t = blockIdx.x % turn.length;
  const int64_t slices = gridDim.x / turn.length;  // of the samples
  for (int first = 0; first < turn.half; first += kPairs) {
    const int pairs = turn.half - first < kPairs ? turn.half - first : kPairs;
    __syncthreads();  // the pairs before have been rotated
    angles(turn, t, first, pairs, cosine, sine);
    __syncthreads();
    for (int64_t b = blockIdx.x / turn.length; b < turn.batch; b += slices) {
      rotate_row<N>(turn, first, pairs, cosine, sine, qkv + (b * turn.length + t) * turn.packed);
    }
  }
}

}  // namespace

void rope_cuda(Stream& stream, const AttentionShape& shape, float theta, int64_t first_position,
               Rotation rotation, Tensor& qkv) {
  if (shape.batch == 0 || shape.length == 0) return;
  const Turn turn{.batch = shape.batch,
                  .length = shape.length,
                  .packed = shape.packed(),
                  .heads = static_cast<int>(shape.heads + shape.kv_heads),
                  .half = static_cast<int>(shape.head_dim / 2),
                  .theta = theta,
                  .sign = rotation == Rotation::kForward ? 1.0F : -1.0F,
                  .first_position = first_position};
  const int64_t slices = std::clamp<int64_t>(kEnoughBlocks / shape.length, 1, shape.batch);
  on_float(qkv.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    auto* const rows = static_cast<T*>(qkv.address());
    const bool packed = cuda::rows_are_packs<kPack>(turn.half, rows);
    cuda::launch("rope", packed ? rope_kernel<kPack, T> : rope_kernel<1, T>,
                 {.blocks = shape.length * slices, .threads = kThreads}, stream, turn, rows);
  });
}

}  // namespace ds::kernels::detail
