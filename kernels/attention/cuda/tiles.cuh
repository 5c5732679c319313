// What the attention kernels share (FlashAttention-2, Dao, arXiv 2307.08691): blocks of rows of a
// head in shared memory, products over them by a warp, weights out of scores.
//
// A block of threads owns some rows of a head, 16 each of its warps, and goes over the rows of the
// other side in blocks, of which the next is on its way while one is worked on. Whose rows these
// are, and where results go, is told by the operands: of whole sequences (whole.cuh), or of parts
// (part.cuh).
#pragma once

#include "kernels/attention/attention_operands.h"
#include "kernels/attention/cuda/dropping.cuh"
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/pack.cuh"

namespace ds::kernels::detail {

using cuda::Mma;
using cuda::Sums;

// Head sizes are rounded up to kDim in shared memory, with zeros.
template <class T, int kDim>
struct AttentionTile {
  // Rows begin 16 bytes further in the banks than those before, so that eight of them are read at
  // once.
  static constexpr int kPack = cuda::kPackOf<T>;
  static constexpr int kStride = kDim + kPack;
  static constexpr int kRowBytes = kDim * static_cast<int>(sizeof(T));
  // What is owned fits 32 KiB, what goes by 16 KiB, each twice, and what goes by has two stages.
  static constexpr int kWarps = std::min(4, (32 << 10) / (cuda::kTileRows * kRowBytes));
  static constexpr int kOwned = kWarps * cuda::kTileRows;
  static constexpr int kPassing = std::min(64, (16 << 10) / kRowBytes);
  // In the backward, where two products are kept of each and gradients take most registers.
  static constexpr int kPassingBack = kDim < 128 ? kPassing / 2 : 16;
};

// What a block of threads has of a grid of heads times blocks of queries, the longest first.
struct QueryBlock {
  int first;  // query
  int sample, head;
  int64_t key_head;
};
__device__ inline QueryBlock query_block(int blocks, int owned, const AttentionShape& shape) {
  const int64_t item = blockIdx.x / blocks;
  const auto head = static_cast<int>(item % shape.heads);
  return {.first = (blocks - 1 - static_cast<int>(blockIdx.x % blocks)) * owned,
          .sample = static_cast<int>(item / shape.heads),
          .head = head,
          .key_head = head / (shape.heads / shape.kv_heads)};
}

// The rows of one head among those of a packed matrix.
template <class T>
struct HeadRows {
  T* rows;         // of position 0
  int64_t stride;  // elements from one position to the next
  __device__ T* at(int64_t position) const { return rows + position * stride; }
};

// The rows of a warp, which are some of its block's: `first` is the block's first one, and `row` is
// the warp's among them.
struct WarpRows {
  int sample, head;
  int first, row;
};

// Asks for rows [first, first + kRows) of a head; those that are not there, and columns from `dim`
// on, become zeros. Rows that are no packs are copied at once.
template <int kDim, int kRows, class T>
__device__ void fetch_rows(T* tile, HeadRows<const T> from, int first, int length, int dim,
                           bool packs) {
  using Tile = AttentionTile<T, kDim>;
  const int threads = static_cast<int>(blockDim.x);
  if (packs) {
    constexpr int kPacks = kDim / Tile::kPack;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += threads) {
      const int row = i / kPacks;
      const int column = i % kPacks * Tile::kPack;
      const bool there = first + row < length && column < dim;
      const T* const at =
          there ? from.rows + int64_t{first + row} * from.stride + column : from.rows;
      cuda::copy_async(tile + row * Tile::kStride + column, at, there);
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDim; i += threads) {
    const int row = i / kDim;
    const int column = i % kDim;
    const bool there = first + row < length && column < dim;
    tile[row * Tile::kStride + column] =
        there ? from.rows[int64_t{first + row} * from.stride + column] : T{};
  }
}

// The reverse, for rows and columns that are there; by all threads of the block.
template <int kDim, int kRows, class T>
__device__ void write_rows(const T* tile, HeadRows<T> to, int first, int length, int dim,
                           bool packs) {
  using Tile = AttentionTile<T, kDim>;
  const int threads = static_cast<int>(blockDim.x);
  if (packs) {
    constexpr int kPacks = kDim / Tile::kPack;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += threads) {
      const int row = i / kPacks;
      const int column = i % kPacks * Tile::kPack;
      if (first + row >= length || column >= dim) continue;
      cuda::store(cuda::load<Tile::kPack>(tile + row * Tile::kStride + column),
                  to.rows + int64_t{first + row} * to.stride + column);
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDim; i += threads) {
    const int row = i / kDim;
    const int column = i % kDim;
    if (first + row >= length || column >= dim) continue;
    to.rows[int64_t{first + row} * to.stride + column] = tile[row * Tile::kStride + column];
  }
}

// Products of a warp ------------------------------------------------------------------------------
// sums[n] = rows * others^T: the scores of 16 rows with 8 * kTiles others, over kDim columns.
template <int kDim, int kTiles, class T>
__device__ void row_products(const T* rows, const T* others, Sums (&sums)[kTiles]) {
  constexpr int kStride = AttentionTile<T, kDim>::kStride;
  DS_UNROLL
  for (Sums& sum : sums) sum = {};
  DS_DO_NOT_UNROLL
  for (int k = 0; k < kDim; k += Mma<T>::kDepth) {
    const auto a = Mma<T>::load_a(rows + k, kStride);
    DS_UNROLL
    for (int n = 0; n < kTiles; n += 2) {
      const auto b = Mma<T>::load_b(others + n * cuda::kTileColumns * kStride + k, kStride);
      Mma<T>::multiply(a, b[0], sums[n]);
      Mma<T>::multiply(a, b[1], sums[n + 1]);
    }
  }
}

// to[n] += weights * others: 16 rows of weights for 8 * kTiles others, times 8 * kColumns of the
// columns of these.
template <int kDim, int kTiles, int kColumns, class T>
__device__ void add_weighted_rows(const Sums (&weights)[kTiles], const T* others,
                                  Sums (&to)[kColumns]) {
  constexpr int kStride = AttentionTile<T, kDim>::kStride;
  constexpr int kDepth = Mma<T>::kDepth;
  DS_UNROLL
  for (int k = 0; k < kTiles * cuda::kTileColumns; k += kDepth) {
    const auto a = Mma<T>::from_sums(&weights[k / cuda::kTileColumns]);
    DS_UNROLL
    for (int n = 0; n < kColumns; n += 2) {
      const auto b = Mma<T>::load_b_rows(others + k * kStride + n * cuda::kTileColumns, kStride);
      Mma<T>::multiply(a, b[0], to[n]);
      Mma<T>::multiply(a, b[1], to[n + 1]);
    }
  }
}

// These say where this lane's element i of tile n is in the 16 rows and 8 * kTiles columns of sums.
__device__ inline int row_of(int i) { return cuda::lane_of_warp() / 4 + i / 2 * 8; }
__device__ inline int column_of(int n, int i) {
  return n * cuda::kTileColumns + cuda::lane_of_warp() % 4 * 2 + i % 2;
}

// Rounded to T, times `factor` of their row, into a tile.
template <int kDim, int kColumns, class T>
__device__ void put_sums(const Sums (&sums)[kColumns], float upper, float lower, T* tile) {
  DS_UNROLL
  for (int n = 0; n < kColumns; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      tile[row_of(i) * AttentionTile<T, kDim>::kStride + column_of(n, i)] =
          static_cast<T>(sums[n][i] * (i < 2 ? upper : lower));
    }
  }
}

// sum(a b) of two rows, by a warp; all of its lanes get it.
template <class T>
__device__ float row_product(const T* a, const T* b, int dim) {
  float sum = 0;
  for (int c = cuda::lane_of_warp(); c < dim; c += cuda::kWarp) {
    sum = fmaf(static_cast<float>(a[c]), static_cast<float>(b[c]), sum);
  }
  return cuda::warp_reduce(sum, cuda::Plus{});
}

// Over the four lanes that share a row.
template <class Op>
__device__ float row_reduce(float value, Op op) {
  value = op(value, __shfl_xor_sync(cuda::kAllLanes, value, 1));
  return op(value, __shfl_xor_sync(cuda::kAllLanes, value, 2));
}

// To memory that the threads share: while sums are in registers, there is no room for it there.
// What is written is there for all of them after their next barrier.
template <class Of>
__device__ void prepare_dropout(const Of& a, int64_t sample, Dropping& dropping) {
  if constexpr (Of::kMayDrop) {
    if (a.dropout.p == 0 || threadIdx.x != 0) return;
    dropping = a.dropout.droppings[sample];
  }
}

// Which of this lane's elements of kTiles sums dropout keeps, the first in the lowest bit. Queries
// go down the sums and keys across, or keys down and queries across; `query` and `key` are those of
// the first row and column. The generator's key is read anew for each.
enum class Across { kKeys, kQueries };
template <Across kAcross, int kTiles, class Of>
__device__ uint32_t kept_elements(const Of& a, const volatile Dropping& dropping, int64_t head,
                                  int query, int key) {
  static_assert(kTiles <= 8);
  uint32_t kept = 0;
  DS_DO_NOT_UNROLL
  for (int e = 0; e < 4 * kTiles; ++e) {
    const int down = row_of(e % 4);
    const int across = column_of(e / 4, e % 4);
    const int q = query + (kAcross == Across::kKeys ? down : across);
    const int k = key + (kAcross == Across::kKeys ? across : down);
    const int64_t row = (dropping.first_head + head) * a.length + q;
    const auto words = Rng::from_key(dropping.key).block(dropout_block(row, a.length, k));
    const uint32_t even = k % 4 < 2 ? words[0] : words[2];
    const uint32_t odd = k % 4 < 2 ? words[1] : words[3];
    const uint32_t word = k % 2 == 0 ? even : odd;
    kept |= (keeps(word, a.dropout.p) ? 1U : 0U) << e;
  }
  return kept;
}

// Probabilities, or their gradients, are multiplied by 0 or 1 / (1 - p).
template <int kTiles>
__device__ void drop(uint32_t kept, float p, Sums (&sums)[kTiles]) {
  const float factor = 1.0F / (1.0F - p);
  DS_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) sums[n][i] *= (kept >> (4 * n + i) & 1U) != 0 ? factor : 0.0F;
  }
}

// Masks and scores. Of: whole.cuh or part.cuh. If Of::kMasked, its seen_keys() say which keys are
// seen, and it has a scale and a cap of its own; else queries see keys up to a last one, and the
// scale is 1/sqrt(D).
inline constexpr float kLog2E = 1.44269504088896340736F;

template <class Of>
__device__ float gradient_scale(const Of& a) {
  if constexpr (Of::kMasked) return a.scale;
  return 1.0F / sqrtf(static_cast<float>(a.shape.head_dim));
}
// For exponents of 2.
template <class Of>
__device__ float score_scale(const Of& a) {
  if constexpr (Of::kMasked) return kLog2E * a.scale;
  return kLog2E / sqrtf(static_cast<float>(a.shape.head_dim));
}

// A score for exponents of 2, and what its gradient is multiplied by beside the scale.
struct Score {
  float value, slope;
};
template <class Of>
__device__ Score score_of(const Of& a, float scale, float product) {
  if constexpr (Of::kMasked) {
    if (a.softcap > 0) {
      const float t = tanhf(product * (a.scale / a.softcap));
      return {t * a.softcap * kLog2E, 1.0F - t * t};
    }
  }
  return {product * scale, 1.0F};
}

// Rows [begin, end) of keys that some of `owned` queries from `first` on see.
struct RowRange {
  int begin, end;
};
template <class Of>
__device__ RowRange keys_seen(const Of& a, int64_t sample, int first, int owned) {
  if constexpr (Of::kMasked) {
    const SeenByRowsOf<int> rows{.seen = a.seen_keys(),
                                 .sample = sample,
                                 .first = first,
                                 .rows = std::min(owned, a.queries() - first),
                                 .keys = a.keys()};
    const auto [begin, end] = rows.span();
    return {begin, end};
  }
  return {0, std::min(a.last_key(first + owned - 1) + 1, a.keys())};
}

// Rows of queries that may see some of `owned` keys from `first` on.
template <class Of>
__device__ RowRange queries_that_see(const Of& a, int first, int owned) {
  if constexpr (Of::kMasked) {
    const SeenKeys seen = a.seen_keys();
    const int own = first - seen.shift();
    const int begin = std::max(own - seen.right, 0);
    return {std::min(begin, a.queries() - 1), std::min(own + owned + seen.left, a.queries())};
  }
  return {a.first_query(first), a.queries()};
}

// Blocks of kRows rows. There is one at least: what was asked for is waited for with it.
struct BlockRange {
  int begin, count;
};
template <int kRows>
__device__ BlockRange blocks_of(const RowRange& rows) {
  const int begin = rows.begin / kRows;
  return {begin, std::max((rows.end + kRows - 1) / kRows - begin, 1)};
}

// Whether this lane's element i of tile n is seen, if queries go down and keys across.
struct SeenBits {
  uint64_t rows[2];
  __device__ bool operator()(int n, int i) const {
    return (rows[i / 2] >> column_of(n, i) & 1U) != 0;
  }
};
template <class Of>
struct SeenUpToLast {
  const Of& a;
  int query, key;
  __device__ bool operator()(int n, int i) const {
    return key + column_of(n, i) <= a.last_key(query + row_of(i));
  }
};
template <class Of>
__device__ auto seen_down(const Of& a, int64_t sample, int64_t head, int query, int key) {
  if constexpr (Of::kMasked) {
    SeenBits bits;
    for (int half = 0; half < 2; ++half) {
      const int row = query + row_of(2 * half);
      bits.rows[half] =
          row < a.queries() ? a.seen_keys().tile(sample, head, row, key, a.keys()) : 0;
    }
    return bits;
  } else {
    return SeenUpToLast<Of>{a, query, key};
  }
}

// The same if keys go down, from the warp's `row` of its block on, and queries across. `words` has
// what each query of the tile sees of the block's keys.
struct SeenWords {
  const uint64_t* words;
  int row;
  __device__ bool operator()(int n, int i) const {
    return (words[column_of(n, i)] >> (row + row_of(i)) & 1U) != 0;
  }
};
template <class Of>
struct SeenFromFirst {
  const Of& a;
  int query, key;
  __device__ bool operator()(int n, int i) const {
    return key + row_of(i) <= a.last_key(query + column_of(n, i));
  }
};

inline constexpr int64_t kMostHeadDim = 256;

// Calls f.operator()<kDim>() with the head size rounded up to what there are kernels for, up to
// kMost.
template <int64_t kMost = kMostHeadDim, class F>
void on_head_dim(int64_t dim, F&& f) {
  if (dim > kMost) {
    throw Unsupported(
        fmt::format("attention: heads of {} elements on a CUDA device; it has kernels "
                    "for up to {}",
                    dim, kMost));
  }
  if (dim <= 32) return f.template operator()<32>();
  if (dim <= 64) return f.template operator()<64>();
  if (dim <= 128) return f.template operator()<128>();
  if constexpr (kMost > 128) return f.template operator()<kMostHeadDim>();
}

}  // namespace ds::kernels::detail
