// Attention on CUDA devices, backward: FlashAttention-2 (Dao, arXiv 2307.08691) in two kernels, one
// for the gradients of queries and one for those of keys and values, so that no sum has to be
// shared. With p the weights, dp their gradients and delta = sum(p dp) = sum(dy y) of a query, the
// gradients of its scores are p (dp - delta).
#pragma once

#include "kernels/attention/cuda/tiles.cuh"

namespace ds::kernels::detail {

// Scores become weights 2^(scaled - lse), 0 if the query does not see the key.
__device__ inline float weight_of(float score, float lse, bool seen) {
  return seen ? exp2f(score - lse * kLog2E) : 0.0F;
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

// The weights of a warp's queries become the gradients of their scores.
template <int kTiles, class Of, class Seen>
__device__ void query_gradients(const Of& a, const Seen& seen, const float (&lse)[2],
                                const float (&delta)[2], const Sums (&products)[kTiles],
                                Sums (&scores)[kTiles]) {
  const float scale = score_scale(a);
  DS_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Score score = score_of(a, scale, scores[n][i]);
      const float weight = weight_of(score.value, lse[i / 2], seen(n, i));
      scores[n][i] = weight * (products[n][i] - delta[i / 2]) * score.slope;
    }
  }
}

// A block of threads per head and block of queries. Two of them per multiprocessor are promised,
// lest the compiler spill registers to make room for more.
template <class Of, int kDim>
__global__ void __launch_bounds__(AttentionTile<typename Of::Element, kDim>::kWarps* cuda::kWarp, 2)
    query_kernel(int query_blocks, Of a) {
  using T = typename Of::Element;
  using Tile = AttentionTile<T, kDim>;
  using Tiles = QueryTiles<T, kDim>;
  constexpr int kColumns = kDim / cuda::kTileColumns;
  constexpr int kTiles = Tile::kPassingBack / cuda::kTileColumns;
  DS_SHARED_OF_LAUNCH(Tiles, tiles);
  const auto [first, sample, head, key_head] = query_block(query_blocks, Tile::kOwned, a.shape);
  const auto keys = a.key_rows(sample, key_head);
  const auto values = a.value_rows(sample, key_head);
  const auto [begin, blocks] =
      blocks_of<Tile::kPassingBack>(keys_seen(a, sample, first, Tile::kOwned));
  const auto fetch = [&](int block, int stage) {
    const int at = (begin + block) * Tile::kPassingBack;
    fetch_rows<kDim, Tile::kPassingBack>(tiles->keys[stage], keys, at, a.keys(), a.dim, a.packs);
    fetch_rows<kDim, Tile::kPassingBack>(tiles->values[stage], values, at, a.keys(), a.dim,
                                         a.packs);
    cuda::end_copy_group();
  };
  prepare_dropout(a, sample, tiles->dropping);
  fetch_rows<kDim, Tile::kOwned>(tiles->queries, a.query_rows(sample, head), first, a.queries(),
                                 a.dim, a.packs);
  fetch_rows<kDim, Tile::kOwned>(tiles->dy, a.dy_rows(sample, head), first, a.queries(), a.dim,
                                 a.packs);
  fetch(0, 0);

  const int row = static_cast<int>(threadIdx.x) / cuda::kWarp * cuda::kTileRows;
  const WarpRows at{sample, head, first, row};
  a.find_deltas(at, tiles->delta + row);
  float lse[2];
  float delta[2];
  for (int half = 0; half < 2; ++half) {
    const int query = first + row + row_of(2 * half);
    lse[half] = query < a.queries() ? a.log_sum_exp[a.number(sample, head) + query] : INFINITY;
    delta[half] = tiles->delta[row + row_of(2 * half)];
  }
  Sums gradient[kColumns] = {};
  cuda::in_two_stages(blocks, fetch, [&](int block, int stage) {
    const int key = (begin + block) * Tile::kPassingBack;
    Sums scores[kTiles];
    Sums products[kTiles];
    row_products<kDim>(tiles->queries + row * Tile::kStride, tiles->keys[stage], scores);
    row_products<kDim>(tiles->dy + row * Tile::kStride, tiles->values[stage], products);
    if constexpr (Of::kMayDrop) {
      if (a.dropout.p > 0) {
        drop(kept_elements<Across::kKeys, kTiles>(a, tiles->dropping, head, first + row, key),
             a.dropout.p, products);
      }
    }
    query_gradients(a, seen_down(a, sample, head, first + row, key), lse, delta, products, scores);
    add_weighted_rows<kDim>(scores, tiles->keys[stage], gradient);
  });
  a.template give_queries<kDim>(at, gradient, tiles->queries);
}

// Keys and values ---------------------------------------------------------------------------------
template <class Of, int kDim>
struct KeyTile : AttentionTile<typename Of::Element, kDim> {
  using Tile = AttentionTile<typename Of::Element, kDim>;
  // Two gradients of 16 rows are more sums than a lane has registers for where heads are wide: then
  // every 16 keys have two warps, each for half of the columns. Parts with a mask keep more.
  static constexpr bool kKeepsMore = Of::kMasked && !Of::kMayDrop;
  static constexpr int kParts = kDim > (kKeepsMore ? 64 : 128) ? 2 : 1;
  static constexpr int kThreads = Tile::kWarps * kParts * cuda::kWarp;
  static constexpr int kColumns = kDim / kParts / cuda::kTileColumns;
  // Blocks that a multiprocessor has registers for; ptxas would rather spill some for a fourth one.
  static constexpr int kBlocks = kDim <= 32 ? 3 : kParts == 1 ? 2 : 1;
};

// What the queries of a stage see of the block's keys, if that has to be kept.
template <int kQueries, bool kIsMasked>
struct PassingSeen {
  uint64_t words[2][kQueries];
};
template <int kQueries>
struct PassingSeen<kQueries, false> {};

template <class Of, int kDim>
struct KeyTiles {
  using T = typename Of::Element;
  using Tile = KeyTile<Of, kDim>;
  T keys[Tile::kOwned * Tile::kStride];
  T values[Tile::kOwned * Tile::kStride];
  T queries[2][Tile::kPassingBack * Tile::kStride];
  T dy[2][Tile::kPassingBack * Tile::kStride];
  float lse[2][Tile::kPassingBack];
  float delta[2][Tile::kPassingBack];
  [[no_unique_address]] PassingSeen<Tile::kPassingBack, Of::kMasked> seen;
  Dropping dropping;
};

template <class Of, class Tiles>
__device__ auto seen_across(const Of& a, const Tiles& tiles, int stage, int query, int first,
                            int row) {
  if constexpr (Of::kMasked) {
    return SeenWords{tiles.seen.words[stage], row};
  } else {
    return SeenFromFirst<Of>{a, query, first + row};
  }
}

// Keys go down, queries across. Scores become weights, with dropout, and products the gradients of
// scores.
template <int kTiles, class Of, class Seen>
__device__ void key_gradients(const Of& a, const volatile Dropping& dropping, int64_t head,
                              int query, int key, const Seen& seen, const float* lse,
                              const float* delta, Sums (&products)[kTiles],
                              Sums (&scores)[kTiles]) {
  const float scale = score_scale(a);
  [[maybe_unused]] uint32_t kept = 0;
  if constexpr (Of::kMayDrop) {
    if (a.dropout.p > 0) {
      kept = kept_elements<Across::kQueries, kTiles>(a, dropping, head, query, key);
      drop(kept, a.dropout.p, products);
    }
  }
  DS_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int column = column_of(n, i);
      const Score score = score_of(a, scale, scores[n][i]);
      scores[n][i] = weight_of(score.value, lse[column], seen(n, i));
      products[n][i] = scores[n][i] * (products[n][i] - delta[column]) * score.slope;
    }
  }
  if constexpr (Of::kMayDrop) {
    if (a.dropout.p > 0) drop(kept, a.dropout.p, scores);
  }
}

// A block of threads per key head and block of keys; all query heads of the key head pass by, each
// from the first query on that sees the keys.
template <class Of, int kDim>
__global__ void __launch_bounds__(KeyTile<Of, kDim>::kThreads, KeyTile<Of, kDim>::kBlocks)
    key_kernel(int key_blocks, Of a) {
  using Tile = KeyTile<Of, kDim>;
  using Tiles = KeyTiles<Of, kDim>;
  constexpr int kTiles = Tile::kPassingBack / cuda::kTileColumns;
  DS_SHARED_OF_LAUNCH(Tiles, tiles);
  const int64_t item = blockIdx.x / key_blocks;
  const int first = static_cast<int>(blockIdx.x % key_blocks) * Tile::kOwned;
  const auto sample = static_cast<int>(item / a.shape.kv_heads);
  const auto key_head = static_cast<int>(item % a.shape.kv_heads);
  const int64_t group = a.shape.heads / a.shape.kv_heads;
  const auto [begin, per_head] =
      blocks_of<Tile::kPassingBack>(queries_that_see(a, first, Tile::kOwned));
  const auto head_of = [&](int step) { return key_head * group + step / per_head; };
  const auto query_of = [&](int step) { return (begin + step % per_head) * Tile::kPassingBack; };
  const auto fetch = [&](int step, int stage) {
    const int64_t head = head_of(step);
    const int query = query_of(step);
    fetch_rows<kDim, Tile::kPassingBack>(tiles->queries[stage], a.query_rows(sample, head), query,
                                         a.queries(), a.dim, a.packs);
    fetch_rows<kDim, Tile::kPassingBack>(tiles->dy[stage], a.dy_rows(sample, head), query,
                                         a.queries(), a.dim, a.packs);
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kPassingBack; i += Tile::kThreads) {
      const bool there = query + i < a.queries();
      const int64_t at = a.number(sample, head) + query + i;
      tiles->lse[stage][i] = there ? a.log_sum_exp[at] : INFINITY;
      tiles->delta[stage][i] = there ? a.delta[at] : 0.0F;
      if constexpr (Of::kMasked) {
        tiles->seen.words[stage][i] =
            there ? a.seen_keys().tile(sample, head, query + i, first, a.keys()) : 0;
      }
    }
    cuda::end_copy_group();
  };
  prepare_dropout(a, sample, tiles->dropping);
  fetch_rows<kDim, Tile::kOwned>(tiles->keys, a.key_rows(sample, key_head), first, a.keys(), a.dim,
                                 a.packs);
  fetch_rows<kDim, Tile::kOwned>(tiles->values, a.value_rows(sample, key_head), first, a.keys(),
                                 a.dim, a.packs);
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
    const int query = query_of(step);
    key_gradients(a, tiles->dropping, head_of(step), query, first + row,
                  seen_across(a, *tiles, stage, query, first, row), tiles->lse[stage],
                  tiles->delta[stage], products, scores);
    add_weighted_rows<kDim>(scores, tiles->dy[stage] + column, dvalues);
    add_weighted_rows<kDim>(products, tiles->queries[stage] + column, dkeys);
  });
  a.template give_keys<kDim>({sample, key_head, first, row}, column, dkeys, dvalues, tiles->keys,
                             tiles->values);
}

struct BackwardNames {
  std::string_view of_queries, of_keys;
};

// `a` has blocks of threads for all of its queries, and of its keys.
template <int kDim, class Of>
void launch_backward(const BackwardNames& names, Stream& stream, const Of& a) {
  using T = typename Of::Element;
  using Tile = KeyTile<Of, kDim>;
  const auto blocks_of = [](int rows) { return (rows + Tile::kOwned - 1) / Tile::kOwned; };
  cuda::launch(names.of_queries, query_kernel<Of, kDim>,
               {.blocks = a.shape.batch * a.shape.heads * blocks_of(a.queries()),
                .threads = Tile::kWarps * cuda::kWarp,
                .shared_bytes = sizeof(QueryTiles<T, kDim>)},
               stream, blocks_of(a.queries()), a);
  cuda::launch(names.of_keys, key_kernel<Of, kDim>,
               {.blocks = a.shape.batch * a.shape.kv_heads * blocks_of(a.keys()),
                .threads = Tile::kThreads,
                .shared_bytes = sizeof(KeyTiles<Of, kDim>)},
               stream, blocks_of(a.keys()), a);
}

}  // namespace ds::kernels::detail
