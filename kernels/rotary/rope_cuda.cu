// Rotary position embedding on CUDA devices. A block takes one position of a few samples, so that
// its angles, which take fp64 to be those of the CPU, are computed once and kept in shared memory;
// if rows have positions of their own, it takes one row.
#include <algorithm>
#include <cmath>

#include "core/device/dispatch.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/rotary/rope_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::Pack;

constexpr int kThreads = 256;
constexpr int kPairs = 256;              // of a head, whose angles are kept at a time
constexpr int kMostPairs = 512;          // whose frequencies a kernel is given
constexpr int64_t kEnoughBlocks = 2048;  // to fill any GPU; more only compute angles again

struct Turn {
  int64_t batch, length, packed;
  int heads, head_dim, pairs;
  int step, apart;  // from one pair to the next, and of a pair's elements
  float factor, sign;
  int64_t first_position;
  const int32_t* positions;  // of each row, or null
  float frequencies[kMostPairs];
};

// Angles as on the CPU: they are rounded to fp32, and their functions after that.
__device__ void angles(const Turn& turn, int64_t position, int first, int pairs, float* cosine,
                       float* sine) {
  for (int i = static_cast<int>(threadIdx.x); i < pairs; i += static_cast<int>(blockDim.x)) {
    const double angle = static_cast<float>(position) * turn.frequencies[first + i];
    cosine[i] = static_cast<float>(cos(angle)) * turn.factor;
    sine[i] = static_cast<float>(sin(angle)) * turn.factor * turn.sign;
  }
}

// Pairs [first, first + pairs) of all heads of a row; N of them follow each other.
template <int N, class T>
__device__ void rotate_row(const Turn& turn, int first, int pairs, const float* cosine,
                           const float* sine, T* row) {
  const int packs = pairs / N;
  const int step = static_cast<int>(blockDim.x);
  for (int item = static_cast<int>(threadIdx.x); item < turn.heads * packs; item += step) {
    const int head = item / packs;
    const int i = item % packs * N;
    T* const a = row + int64_t{head} * turn.head_dim + (first + i) * turn.step;
    T* const b = a + turn.apart;
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
  const int64_t sample = blockIdx.x / turn.length;
  const int64_t position = turn.positions == nullptr ? turn.first_position + t
                                                     : turn.positions[sample * turn.length + t];
  for (int first = 0; first < turn.pairs; first += kPairs) {
    const int pairs = turn.pairs - first < kPairs ? turn.pairs - first : kPairs;
    __syncthreads();  // the pairs before have been rotated
    angles(turn, position, first, pairs, cosine, sine);
    __syncthreads();
    for (int64_t b = sample; b < turn.batch; b += slices) {
      rotate_row<N>(turn, first, pairs, cosine, sine, qkv + (b * turn.length + t) * turn.packed);
    }
  }
}

}  // namespace

void rope_cuda(Stream& stream, const AttentionShape& shape, const RotaryTable& table,
               const RowPositions& positions, Rotation rotation, Tensor& qkv) {
  if (shape.batch == 0 || shape.length == 0) return;
  if (table.frequencies.size() > kMostPairs) {
    throw Unsupported(
        fmt::format("rope: {} pairs of a head on a CUDA device, which has kernels "
                    "for up to {}",
                    table.frequencies.size(), kMostPairs));
  }
  const bool has_rows = positions.rows.defined();
  const auto pairs = narrow<int>(table.frequencies.size());
  Turn turn{.batch = shape.batch,
            .length = shape.length,
            .packed = shape.packed(),
            .heads = narrow<int>(shape.heads + shape.kv_heads),
            .head_dim = narrow<int>(shape.head_dim),
            .pairs = pairs,
            .step = table.pairs_neighbours ? 2 : 1,
            .apart = table.pairs_neighbours ? 1 : pairs,
            .factor = table.factor,
            .sign = rotation == Rotation::kForward ? 1.0F : -1.0F,
            .first_position = positions.first,
            .positions = has_rows ? static_cast<const int32_t*>(positions.rows.address()) : nullptr,
            .frequencies = {}};
  std::copy(table.frequencies.begin(), table.frequencies.end(), turn.frequencies);
  const int64_t slices =
      has_rows ? shape.batch : std::clamp<int64_t>(kEnoughBlocks / shape.length, 1, shape.batch);
  on_float(qkv.dtype(), [&]<class T>() {
    constexpr int kPack = cuda::kPackOf<T>;
    auto* const rows = static_cast<T*>(qkv.address());
    const bool packed = !table.pairs_neighbours && shape.head_dim % kPack == 0 &&
                        cuda::rows_are_packs<kPack>(pairs, rows);
    cuda::launch("rope", packed ? rope_kernel<kPack, T> : rope_kernel<1, T>,
                 {.blocks = shape.length * slices, .threads = kThreads}, stream, turn, rows);
  });
}

}  // namespace ds::kernels::detail
