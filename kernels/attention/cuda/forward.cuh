// Attention on CUDA devices, forward: FlashAttention-2 (Dao, arXiv 2307.08691) with online softmax,
// exponents of 2.
#pragma once

#include "kernels/attention/cuda/tiles.cuh"

namespace ds::kernels::detail {

// A warp's 16 queries, of which a lane has two: [0] lane / 4, [1] that + 8.
template <int kColumns>
struct Progress {
  float most[2] = {-INFINITY, -INFINITY};  // of the scores, in units of score_scale
  float total[2] = {0, 0};                 // of this lane's weights
  Sums out[kColumns] = {};
};

// Scores, of which `seen` are seen, become weights 2^(scaled - most).
template <int kTiles, int kColumns, class Of, class Seen>
__device__ void online_softmax(const Of& a, float scale, const Seen& seen, Sums (&scores)[kTiles],
                               Progress<kColumns>& progress) {
  float most[2] = {progress.most[0], progress.most[1]};
  DS_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = seen(n, i) ? score_of(a, scale, scores[n][i]).value : -INFINITY;
      most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
    }
  }
  float shrink[2];
  DS_UNROLL
  for (int half = 0; half < 2; ++half) {
    most[half] = row_reduce(most[half], cuda::Larger{});
    const float before = progress.most[half];
    progress.most[half] = most[half];
    // Rows that have seen nothing yet have no largest score to subtract.
    if (Of::kMasked && most[half] == -INFINITY) most[half] = 0;
    shrink[half] = exp2f(before - most[half]);
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

// A block of threads per head and block of queries, the longest first. Of: the operands.
template <class Of, int kDim>
__global__ void __launch_bounds__(AttentionTile<typename Of::Element, kDim>::kWarps* cuda::kWarp,
                                  Of::kPromised) forward_kernel(int query_blocks, Of a) {
  using T = typename Of::Element;
  using Tile = AttentionTile<T, kDim>;
  using Tiles = ForwardTiles<T, kDim>;
  constexpr int kColumns = kDim / cuda::kTileColumns;
  constexpr int kTiles = Tile::kPassing / cuda::kTileColumns;
  DS_SHARED_OF_LAUNCH(Tiles, tiles);
  const auto [first, sample, head, key_head] = query_block(query_blocks, Tile::kOwned, a.shape);
  const auto keys = a.key_rows(sample, key_head);
  const auto values = a.value_rows(sample, key_head);
  const auto [begin, blocks] = blocks_of<Tile::kPassing>(keys_seen(a, sample, first, Tile::kOwned));
  const auto fetch = [&](int block, int stage) {
    const int at = (begin + block) * Tile::kPassing;
    fetch_rows<kDim, Tile::kPassing>(tiles->keys[stage], keys, at, a.keys(), a.dim, a.packs);
    fetch_rows<kDim, Tile::kPassing>(tiles->values[stage], values, at, a.keys(), a.dim, a.packs);
    cuda::end_copy_group();
  };
  prepare_dropout(a, sample, tiles->dropping);
  fetch_rows<kDim, Tile::kOwned>(tiles->queries, a.query_rows(sample, head), first, a.queries(),
                                 a.dim, a.packs);
  fetch(0, 0);

  const int row = static_cast<int>(threadIdx.x) / cuda::kWarp * cuda::kTileRows;
  T* const own = tiles->queries + row * Tile::kStride;
  const float scale = score_scale(a);
  Progress<kColumns> progress;
  a.begin({sample, head, first, row}, progress);
  cuda::in_two_stages(blocks, fetch, [&](int block, int stage) {
    const int key = (begin + block) * Tile::kPassing;
    Sums scores[kTiles];
    row_products<kDim>(own, tiles->keys[stage], scores);
    online_softmax(a, scale, seen_down(a, sample, head, first + row, key), scores, progress);
    if constexpr (Of::kMayDrop) {
      if (a.dropout.p > 0) {
        drop(kept_elements<Across::kKeys, kTiles>(a, tiles->dropping, head, first + row, key),
             a.dropout.p, scores);
      }
    }
    add_weighted_rows<kDim>(scores, tiles->values[stage], progress.out);
  });
  a.template end<kDim>({sample, head, first, row}, progress, tiles->queries);
}

// `a` has blocks of threads for all of its queries.
template <int kDim, class Of>
void launch_forward(std::string_view name, Stream& stream, const Of& a) {
  using Tile = AttentionTile<typename Of::Element, kDim>;
  const int blocks = (a.queries() + Tile::kOwned - 1) / Tile::kOwned;
  cuda::launch(name, forward_kernel<Of, kDim>,
               {.blocks = a.shape.batch * a.shape.heads * blocks,
                .threads = Tile::kWarps * cuda::kWarp,
                .shared_bytes = sizeof(ForwardTiles<typename Of::Element, kDim>)},
               stream, blocks, a);
}

}  // namespace ds::kernels::detail
