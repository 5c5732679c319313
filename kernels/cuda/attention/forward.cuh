// Attention on CUDA devices, forward: FlashAttention-2 (Dao, arXiv 2307.08691) with online softmax,
// exponents of 2.
#include "core/dispatch.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/tiles.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ds::kernels::detail {
namespace {

// A warp's 16 queries, of which a lane has two: [0] lane / 4, [1] that + 8.
template <int kColumns>
struct Progress {
  float most[2] = {-INFINITY, -INFINITY};  // of the scores, in units of score_scale
  float total[2] = {0, 0};                 // of this lane's weights
  Sums out[kColumns] = {};
};

// Scores of queries from `query` on with keys from `key` on become weights 2^(scaled - most).
template <int kTiles, int kColumns>
__device__ void online_softmax(float scale, int query, int key, Sums (&scores)[kTiles],
                               Progress<kColumns>& progress) {
  float most[2] = {progress.most[0], progress.most[1]};
  DS_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const bool seen = key + column_of(n, i) <= query + row_of(i);
      scores[n][i] = seen ? scores[n][i] * scale : -INFINITY;
      most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
    }
  }
  float shrink[2];
  DS_UNROLL
  for (int half = 0; half < 2; ++half) {
    most[half] = row_reduce(most[half], cuda::Larger{});
    shrink[half] = exp2f(progress.most[half] - most[half]);
    progress.most[half] = most[half];
    progress.total[half] *= shrink[half];
  }
  DS_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = exp2f(scores[n][i] - most[i / 2]);
      progress.total[i / 2] += scores[n][i];
    }
  }
  DS_UNROLL
  for (int n = 0; n < kColumns; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) progress.out[n][i] *= shrink[i / 2];
  }
}

template <class T, int kDim>
struct ForwardTiles {
  using Tile = AttentionTile<T, kDim>;
  T queries[Tile::kOwned * Tile::kStride];
  T keys[2][Tile::kPassing * Tile::kStride];
  T values[2][Tile::kPassing * Tile::kStride];
  Dropping dropping;
};

// A block of threads per head and block of queries, the longest first.
template <class T, int kDim>
__global__ void __launch_bounds__(AttentionTile<T, kDim>::kWarps* cuda::kWarp)
    forward_kernel(int query_blocks, AttentionKernel<T> a) {
  using Tile = AttentionTile<T, kDim>;
  using Tiles = ForwardTiles<T, kDim>;
  constexpr int kColumns = kDim / cuda::kTileColumns;
  constexpr int kTiles = Tile::kPassing / cuda::kTileColumns;
  DS_SHARED_OF_LAUNCH(Tiles, tiles);
  const AttentionShape& s = a.shape;
  const int64_t item = blockIdx.x / query_blocks;
  const int first = (query_blocks - 1 - static_cast<int>(blockIdx.x % query_blocks)) * Tile::kOwned;
  const int64_t sample = item / s.heads;
  const int64_t head = item % s.heads;
  const int64_t key_head = s.heads + head / (s.heads / s.kv_heads);
  const auto queries = packed_head<const T>(s, a.qkv, sample, head);
  const auto keys = packed_head<const T>(s, a.qkv, sample, key_head);
  const auto values = packed_head<const T>(s, a.qkv, sample, key_head + s.kv_heads);
  const auto fetch = [&](int block, int stage) {
    const int at = block * Tile::kPassing;
    fetch_rows<kDim, Tile::kPassing>(tiles->keys[stage], keys, at, a.length, a.dim, a.packs);
    fetch_rows<kDim, Tile::kPassing>(tiles->values[stage], values, at, a.length, a.dim, a.packs);
    cuda::end_copy_group();
  };
  prepare_dropout(a, sample, tiles->dropping);
  fetch_rows<kDim, Tile::kOwned>(tiles->queries, queries, first, a.length, a.dim, a.packs);
  fetch(0, 0);

  const int row = static_cast<int>(threadIdx.x) / cuda::kWarp * cuda::kTileRows;
  T* const own = tiles->queries + row * Tile::kStride;
  const float scale = score_scale(a);
  const int seen = std::min(first + Tile::kOwned, a.length);
  const int blocks = (seen + Tile::kPassing - 1) / Tile::kPassing;
  Progress<kColumns> progress;
  cuda::in_two_stages(blocks, fetch, [&](int block, int stage) {
    const int key = block * Tile::kPassing;
    Sums scores[kTiles];
    row_products<kDim>(own, tiles->keys[stage], scores);
    online_softmax(scale, first + row, key, scores, progress);
    if (a.dropout.p > 0) {
      drop(kept_elements<Across::kKeys, kTiles>(a, tiles->dropping, head, first + row, key),
           a.dropout.p, scores);
    }
    add_weighted_rows<kDim>(scores, tiles->values[stage], progress.out);
  });

  float factor[2];
  for (int half = 0; half < 2; ++half) {
    const float total = row_reduce(progress.total[half], cuda::Plus{});
    factor[half] = 1.0F / total;
    const int query = first + row + row_of(2 * half);
    if (query < a.length && cuda::lane_of_warp() % 4 == 0) {
      a.log_sum_exp[item * s.length + query] = progress.most[half] / kLog2E + logf(total);
    }
  }
  put_sums<kDim>(progress.out, factor[0], factor[1], own);
  __syncthreads();
  write_rows<kDim, Tile::kOwned>(tiles->queries, output_head(s, a.y, sample, head), first, a.length,
                                 a.dim, a.packs);
}

}  // namespace

void attention_forward_cuda(Stream& stream, const AttentionOperands& operands) {
  const AttentionShape& s = operands.shape;
  const Tensor droppings = droppings_of(stream, operands);
  on_float(operands.qkv.dtype(), [&]<class T>() {
    on_head_dim(s.head_dim, [&]<int kDim>() {
      using Tile = AttentionTile<T, kDim>;
      const int blocks = (narrow<int>(s.length) + Tile::kOwned - 1) / Tile::kOwned;
      cuda::launch("attention_forward", forward_kernel<T, kDim>,
                   {.blocks = s.batch * s.heads * blocks,
                    .threads = Tile::kWarps * cuda::kWarp,
                    .shared_bytes = sizeof(ForwardTiles<T, kDim>)},
                   stream, blocks, attention_kernel<T>(operands, droppings));
    });
  });
}

}  // namespace ds::kernels::detail
