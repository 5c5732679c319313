// Attention on CUDA devices, backward: FlashAttention-2 (Dao, arXiv 2307.08691) in two kernels, one
// for the gradients of queries and one for those of keys and values, so that no sum has to be
// shared. With p the weights, dp their gradients and delta = sum(p dp) = sum(dy y) of a query, the
// gradients of its scores are p (dp - delta).
#include "core/dispatch.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/tiles.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ds::kernels::detail {
namespace {

// Scores become weights 2^(scaled - lse), 0 where the key comes after the query.
__device__ float weight_of(float score, float scale, float lse, bool seen) {
  return seen ? exp2f(score * scale - lse * kLog2E) : 0.0F;
}

// Queries -----------------------------------------------------------------------------------------
template <class T, int kDim>
struct QueryTiles {
  using Tile = AttentionTile<T, kDim>;
  T queries[Tile::kOwned * Tile::kStride];
  T dy[Tile::kOwned * Tile::kStride];
  T keys[2][Tile::kPassingBack * Tile::kStride];
  T values[2][Tile::kPassingBack * Tile::kStride];
  float delta[Tile::kOwned];
  Dropping dropping;
};

// sum(dy y) of a warp's 16 queries from `query` on, into shared memory and for the other kernel.
template <class T>
__device__ void find_deltas(const AttentionKernel<T>& a, int64_t sample, int64_t head,
                            int64_t query, float* deltas) {
  const AttentionShape& s = a.shape;
  const auto y = output_head<const T>(s, a.y, sample, head);
  const auto dy = output_head<const T>(s, a.dy, sample, head);
  for (int row = 0; row < cuda::kTileRows; ++row) {
    float delta = 0;
    const bool there = query + row < a.length;
    const int64_t at = (query + row) * y.stride;
    for (int64_t c = cuda::lane_of_warp(); there && c < s.head_dim; c += cuda::kWarp) {
      delta = fmaf(static_cast<float>(dy.rows[at + c]), static_cast<float>(y.rows[at + c]), delta);
    }
    delta = cuda::warp_reduce(delta, cuda::Plus{});
    if (cuda::lane_of_warp() != 0) continue;
    deltas[row] = delta;
    if (there) a.delta[(sample * s.heads + head) * s.length + query + row] = delta;
  }
  __syncwarp();
}

// The weights of a warp's queries become the gradients of their scores.
template <int kTiles, class T>
__device__ void query_gradients(const AttentionKernel<T>& a, int query, int key,
                                const float (&lse)[2], const float (&delta)[2],
                                const Sums (&products)[kTiles], Sums (&scores)[kTiles]) {
  const float scale = score_scale(a);
  DS_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const bool seen = key + column_of(n, i) <= query + row_of(i);
      const float weight = weight_of(scores[n][i], scale, lse[i / 2], seen);
      scores[n][i] = weight * (products[n][i] - delta[i / 2]);
    }
  }
}

// A block of threads per head and block of queries. Two of them per multiprocessor are promised,
// lest the compiler spill registers to make room for more.
template <class T, int kDim>
__global__ void __launch_bounds__(AttentionTile<T, kDim>::kWarps* cuda::kWarp, 2)
    query_kernel(int query_blocks, AttentionKernel<T> a) {
  using Tile = AttentionTile<T, kDim>;
  using Tiles = QueryTiles<T, kDim>;
  constexpr int kColumns = kDim / cuda::kTileColumns;
  constexpr int kTiles = Tile::kPassingBack / cuda::kTileColumns;
  DS_SHARED_OF_LAUNCH(Tiles, tiles);
  const AttentionShape& s = a.shape;
  const int64_t item = blockIdx.x / query_blocks;
  const int first = (query_blocks - 1 - static_cast<int>(blockIdx.x % query_blocks)) * Tile::kOwned;
  const int64_t sample = item / s.heads;
  const int64_t head = item % s.heads;
  const int64_t key_head = s.heads + head / (s.heads / s.kv_heads);
  const auto keys = packed_head<const T>(s, a.qkv, sample, key_head);
  const auto values = packed_head<const T>(s, a.qkv, sample, key_head + s.kv_heads);
  const auto fetch = [&](int block, int stage) {
    const int at = block * Tile::kPassingBack;
    fetch_rows<kDim, Tile::kPassingBack>(tiles->keys[stage], keys, at, a.length, a.dim, a.packs);
    fetch_rows<kDim, Tile::kPassingBack>(tiles->values[stage], values, at, a.length, a.dim,
                                         a.packs);
    cuda::end_copy_group();
  };
  prepare_dropout(a, sample, tiles->dropping);
  fetch_rows<kDim, Tile::kOwned>(tiles->queries, packed_head<const T>(s, a.qkv, sample, head),
                                 first, a.length, a.dim, a.packs);
  fetch_rows<kDim, Tile::kOwned>(tiles->dy, output_head<const T>(s, a.dy, sample, head), first,
                                 a.length, a.dim, a.packs);
  fetch(0, 0);

  const int row = static_cast<int>(threadIdx.x) / cuda::kWarp * cuda::kTileRows;
  find_deltas(a, sample, head, first + row, tiles->delta + row);
  float lse[2];
  float delta[2];
  for (int half = 0; half < 2; ++half) {
    const int query = first + row + row_of(2 * half);
    lse[half] = query < a.length ? a.log_sum_exp[item * s.length + query] : INFINITY;
    delta[half] = tiles->delta[row + row_of(2 * half)];
  }
  const int seen = std::min(first + Tile::kOwned, a.length);
  const int blocks = (seen + Tile::kPassingBack - 1) / Tile::kPassingBack;
  Sums gradient[kColumns] = {};
  cuda::in_two_stages(blocks, fetch, [&](int block, int stage) {
    const int key = block * Tile::kPassingBack;
    Sums scores[kTiles];
    Sums products[kTiles];
    row_products<kDim>(tiles->queries + row * Tile::kStride, tiles->keys[stage], scores);
    row_products<kDim>(tiles->dy + row * Tile::kStride, tiles->values[stage], products);
    if (a.dropout.p > 0) {
      drop(kept_elements<Across::kKeys, kTiles>(a, tiles->dropping, head, first + row, key),
           a.dropout.p, products);
    }
    query_gradients(a, first + row, key, lse, delta, products, scores);
    add_weighted_rows<kDim>(scores, tiles->keys[stage], gradient);
  });
  const float scale = 1.0F / sqrtf(static_cast<float>(s.head_dim));
  put_sums<kDim>(gradient, scale, scale, tiles->queries + row * Tile::kStride);
  __syncthreads();
  write_rows<kDim, Tile::kOwned>(tiles->queries, packed_head(s, a.dqkv, sample, head), first,
                                 a.length, a.dim, a.packs);
}

// Keys and values ---------------------------------------------------------------------------------
template <class T, int kDim>
struct KeyTile : AttentionTile<T, kDim> {
  using Tile = AttentionTile<T, kDim>;
  // Two gradients of 16 rows are more sums than a lane has registers for where heads are wide: then
  // every 16 keys have two warps, each for half of the columns.
  static constexpr int kParts = kDim > 128 ? 2 : 1;
  static constexpr int kThreads = Tile::kWarps * kParts * cuda::kWarp;
  static constexpr int kColumns = kDim / kParts / cuda::kTileColumns;
};

template <class T, int kDim>
struct KeyTiles {
  using Tile = KeyTile<T, kDim>;
  T keys[Tile::kOwned * Tile::kStride];
  T values[Tile::kOwned * Tile::kStride];
  T queries[2][Tile::kPassingBack * Tile::kStride];
  T dy[2][Tile::kPassingBack * Tile::kStride];
  float lse[2][Tile::kPassingBack];
  float delta[2][Tile::kPassingBack];
  Dropping dropping;
};

// Keys go down, queries across. Scores become weights, with dropout, and products the gradients of
// scores.
template <int kTiles, class T>
__device__ void key_gradients(const AttentionKernel<T>& a, const volatile Dropping& dropping,
                              int64_t head, int query, int key, const float* lse,
                              const float* delta, Sums (&products)[kTiles],
                              Sums (&scores)[kTiles]) {
  const float scale = score_scale(a);
  uint32_t kept = 0;
  if (a.dropout.p > 0) {
    kept = kept_elements<Across::kQueries, kTiles>(a, dropping, head, query, key);
    drop(kept, a.dropout.p, products);
  }
  DS_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int column = column_of(n, i);
      const bool seen = key + row_of(i) <= query + column;
      scores[n][i] = weight_of(scores[n][i], scale, lse[column], seen);
      products[n][i] = scores[n][i] * (products[n][i] - delta[column]);
    }
  }
  if (a.dropout.p > 0) drop(kept, a.dropout.p, scores);
}

// A block of threads per key head and block of keys; all query heads of the key head pass by, each
// from the first query on that sees the keys.
template <class T, int kDim>
__global__ void __launch_bounds__(KeyTile<T, kDim>::kThreads)
    key_kernel(int key_blocks, AttentionKernel<T> a) {
  using Tile = KeyTile<T, kDim>;
  using Tiles = KeyTiles<T, kDim>;
  constexpr int kTiles = Tile::kPassingBack / cuda::kTileColumns;
  DS_SHARED_OF_LAUNCH(Tiles, tiles);
  const AttentionShape& s = a.shape;
  const int64_t item = blockIdx.x / key_blocks;
  const int first = static_cast<int>(blockIdx.x % key_blocks) * Tile::kOwned;
  const int64_t sample = item / s.kv_heads;
  const int64_t key_head = item % s.kv_heads;
  const int64_t group = s.heads / s.kv_heads;
  const int begin = first / Tile::kPassingBack;
  const int per_head = (a.length + Tile::kPassingBack - 1) / Tile::kPassingBack - begin;
  const auto head_of = [&](int step) { return key_head * group + step / per_head; };
  const auto query_of = [&](int step) { return (begin + step % per_head) * Tile::kPassingBack; };
  const auto fetch = [&](int step, int stage) {
    const int64_t head = head_of(step);
    const int query = query_of(step);
    fetch_rows<kDim, Tile::kPassingBack>(tiles->queries[stage],
                                         packed_head<const T>(s, a.qkv, sample, head), query,
                                         a.length, a.dim, a.packs);
    fetch_rows<kDim, Tile::kPassingBack>(tiles->dy[stage],
                                         output_head<const T>(s, a.dy, sample, head), query,
                                         a.length, a.dim, a.packs);
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kPassingBack; i += Tile::kThreads) {
      const bool there = query + i < a.length;
      const int64_t at = (sample * s.heads + head) * s.length + query + i;
      tiles->lse[stage][i] = there ? a.log_sum_exp[at] : INFINITY;
      tiles->delta[stage][i] = there ? a.delta[at] : 0.0F;
    }
    cuda::end_copy_group();
  };
  const int64_t own_head = s.heads + key_head;
  prepare_dropout(a, sample, tiles->dropping);
  fetch_rows<kDim, Tile::kOwned>(tiles->keys, packed_head<const T>(s, a.qkv, sample, own_head),
                                 first, a.length, a.dim, a.packs);
  fetch_rows<kDim, Tile::kOwned>(tiles->values,
                                 packed_head<const T>(s, a.qkv, sample, own_head + s.kv_heads),
                                 first, a.length, a.dim, a.packs);
  fetch(0, 0);

  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  const int row = warp / Tile::kParts * cuda::kTileRows;
  const int column = warp % Tile::kParts * Tile::kColumns * cuda::kTileColumns;
  Sums dkeys[Tile::kColumns] = {};
  Sums dvalues[Tile::kColumns] = {};
  const int steps = static_cast<int>(group) * per_head;
  cuda::in_two_stages(steps, fetch, [&](int step, int stage) {
    Sums scores[kTiles];
    Sums products[kTiles];
    row_products<kDim>(tiles->keys + row * Tile::kStride, tiles->queries[stage], scores);
    row_products<kDim>(tiles->values + row * Tile::kStride, tiles->dy[stage], products);
    key_gradients(a, tiles->dropping, head_of(step), query_of(step), first + row, tiles->lse[stage],
                  tiles->delta[stage], products, scores);
    add_weighted_rows<kDim>(scores, tiles->dy[stage] + column, dvalues);
    add_weighted_rows<kDim>(products, tiles->queries[stage] + column, dkeys);
  });
  const float scale = 1.0F / sqrtf(static_cast<float>(s.head_dim));
  put_sums<kDim>(dkeys, scale, scale, tiles->keys + row * Tile::kStride + column);
  put_sums<kDim>(dvalues, 1.0F, 1.0F, tiles->values + row * Tile::kStride + column);
  __syncthreads();
  write_rows<kDim, Tile::kOwned>(tiles->keys, packed_head(s, a.dqkv, sample, own_head), first,
                                 a.length, a.dim, a.packs);
  write_rows<kDim, Tile::kOwned>(tiles->values,
                                 packed_head(s, a.dqkv, sample, own_head + s.kv_heads), first,
                                 a.length, a.dim, a.packs);
}

}  // namespace

void attention_backward_cuda(Stream& stream, const AttentionOperands& operands) {
  const AttentionShape& s = operands.shape;
  const Tensor delta =
      Tensor::empty({s.batch * s.heads * s.length}, DType::kF32, stream, MemoryTag::kScratch);
  const Tensor droppings = droppings_of(stream, operands);
  on_float(operands.qkv.dtype(), [&]<class T>() {
    AttentionKernel<T> a = attention_kernel<T>(operands, droppings);
    a.delta = cuda::elements<float>(delta);
    on_head_dim(s.head_dim, [&]<int kDim>() {
      using Tile = KeyTile<T, kDim>;
      const int blocks = (narrow<int>(s.length) + Tile::kOwned - 1) / Tile::kOwned;
      cuda::launch("attention_backward of queries", query_kernel<T, kDim>,
                   {.blocks = s.batch * s.heads * blocks,
                    .threads = Tile::kWarps * cuda::kWarp,
                    .shared_bytes = sizeof(QueryTiles<T, kDim>)},
                   stream, blocks, a);
      cuda::launch("attention_backward of keys", key_kernel<T, kDim>,
                   {.blocks = s.batch * s.kv_heads * blocks,
                    .threads = Tile::kThreads,
                    .shared_bytes = sizeof(KeyTiles<T, kDim>)},
                   stream, blocks, a);
    });
  });
}

}  // namespace ds::kernels::detail
