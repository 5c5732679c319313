// The operands of attention over whole sequences: queries, keys and values lie in one packed
// projection, and probabilities may be dropped. Plain attention, in which queries see keys up to
// their own, has kernels of its own.
#pragma once

#include "kernels/attention/cuda/dropping.cuh"
#include "kernels/attention/cuda/tiles.cuh"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/rows.cuh"

namespace ds::kernels::detail {

// Returns a head of the packed projection, or of its gradient. Heads of queries come first, then
// those of keys, then those of values.
template <class T>
__device__ HeadRows<T> packed_head(const AttentionShape& s, T* packed, int64_t sample,
                                   int64_t head) {
  return {packed + sample * s.length * s.packed() + head * s.head_dim, s.packed()};
}
template <class T>
__device__ HeadRows<T> output_head(const AttentionShape& s, T* y, int64_t sample, int64_t head) {
  return {y + (sample * s.length * s.heads + head) * s.head_dim, s.heads * s.head_dim};
}

struct KernelDropout {
  float p;
  const Dropping* droppings;  // of each sample; read with p > 0
};

template <class T, bool kIsMasked>
struct AttentionKernel {
  using Element = T;
  static constexpr bool kMasked = kIsMasked;
  static constexpr bool kMayDrop = true;
  static constexpr int kPromised = 0;  // blocks of threads per multiprocessor: the compiler knows

  AttentionShape shape;
  int length, dim;  // those of the shape
  SeenKeys seen;    // if masked, as the two that follow
  float scale, softcap;
  KernelDropout dropout;
  bool packs;  // every head's rows are packs of 16 bytes
  const T* qkv;
  T* y;
  float* log_sum_exp;
  const T* dy;
  T* dqkv;
  float* delta;  // [batch, heads, T]: sum over dy * y

  __host__ __device__ int queries() const { return length; }
  // What is constant here takes no register.
  __device__ SeenKeys seen_keys() const {
    SeenKeys of_whole = seen;
    of_whole.query_position = of_whole.key_position = 0;
    return of_whole;
  }
  __host__ __device__ int keys() const { return length; }
  // The last key that a query sees, and the first query that sees a key, in plain attention.
  __device__ int last_key(int query) const { return query; }
  __device__ int first_query(int key) const { return key; }
  // Returns the first query's number among those of all heads: its place in log_sum_exp and delta.
  __device__ int64_t number(int64_t sample, int64_t head) const {
    return (sample * shape.heads + head) * shape.length;
  }
  __device__ HeadRows<const T> query_rows(int64_t sample, int64_t head) const {
    return packed_head(shape, qkv, sample, head);
  }
  __device__ HeadRows<const T> key_rows(int64_t sample, int64_t key_head) const {
    return packed_head(shape, qkv, sample, shape.heads + key_head);
  }
  __device__ HeadRows<const T> value_rows(int64_t sample, int64_t key_head) const {
    return packed_head(shape, qkv, sample, shape.heads + shape.kv_heads + key_head);
  }
  __device__ HeadRows<const T> dy_rows(int64_t sample, int64_t head) const {
    return output_head(shape, dy, sample, head);
  }

  // Queries have seen nothing before.
  template <class Progress>
  __device__ void begin(const WarpRows& /*at*/, Progress& /*progress*/) const {}
  template <int kDim, class Progress>
  __device__ void end(const WarpRows& at, const Progress& progress, T* tile) const;
  __device__ void find_deltas(const WarpRows& at, float* deltas) const;
  template <int kDim, int kColumns>
  __device__ void give_queries(const WarpRows& at, const Sums (&gradient)[kColumns], T* tile) const;
  template <int kDim, int kColumns>
  __device__ void give_keys(const WarpRows& at, int column, const Sums (&dkeys)[kColumns],
                            const Sums (&dvalues)[kColumns], T* keys_tile, T* values_tile) const;
};

// `droppings` as of droppings_of(); outlives what the stream is given.
template <class T, bool kIsMasked>
AttentionKernel<T, kIsMasked> attention_kernel(const AttentionOperands& o,
                                               const Tensor& droppings) {
  using cuda::elements;
  constexpr int kPack = cuda::kPackOf<T>;
  const auto* const qkv = elements<const T>(o.qkv);
  auto* const y = elements<T>(o.y);
  const auto* const dy = elements<const T>(o.dy);
  auto* const dqkv = elements<T>(o.dqkv);
  return {.shape = o.shape,
          .length = narrow<int>(o.shape.length),
          .dim = narrow<int>(o.shape.head_dim),
          .seen = o.seen,
          .scale = o.scale,
          .softcap = o.softcap,
          .dropout = {.p = o.dropout.p,
                      .droppings = droppings.defined()
                                       ? static_cast<const Dropping*>(droppings.address())
                                       : nullptr},
          .packs = cuda::rows_are_packs<kPack>(o.shape.head_dim, qkv, y, dy, dqkv),
          .qkv = qkv,
          .y = y,
          .log_sum_exp = elements<float>(o.log_sum_exp),
          .dy = dy,
          .dqkv = dqkv,
          .delta = nullptr};
}

// What is owned by the block goes through its tile, from `tile` on; by all of its threads.
template <class T, bool kIsMasked>
template <int kDim, class Progress>
__device__ void AttentionKernel<T, kIsMasked>::end(const WarpRows& at, const Progress& progress,
                                                   T* tile) const {
  using Tile = AttentionTile<T, kDim>;
  float factor[2];
  for (int half = 0; half < 2; ++half) {
    const float total = row_reduce(progress.total[half], cuda::Plus{});
    factor[half] = kIsMasked && total == 0 ? 0.0F : 1.0F / total;
    const int query = at.first + at.row + row_of(2 * half);
    if (query < length && cuda::lane_of_warp() % 4 == 0) {
      log_sum_exp[number(at.sample, at.head) + query] = progress.most[half] / kLog2E + logf(total);
    }
  }
  put_sums<kDim>(progress.out, factor[0], factor[1], tile + at.row * Tile::kStride);
  __syncthreads();
  write_rows<kDim, Tile::kOwned>(tile, output_head(shape, y, at.sample, at.head), at.first, length,
                                 dim, packs);
}

// sum(dy y) of a warp's 16 queries, into shared memory and for the other kernel.
template <class T, bool kIsMasked>
__device__ void AttentionKernel<T, kIsMasked>::find_deltas(const WarpRows& at,
                                                           float* deltas) const {
  const auto outputs = output_head<const T>(shape, y, at.sample, at.head);
  const auto gradients = dy_rows(at.sample, at.head);
  const int query = at.first + at.row;
  for (int row = 0; row < cuda::kTileRows; ++row) {
    const bool there = query + row < length;
    const float sum =
        there ? row_product(gradients.at(query + row), outputs.at(query + row), dim) : 0.0F;
    if (cuda::lane_of_warp() != 0) continue;
    deltas[row] = sum;
    if (there) delta[number(at.sample, at.head) + query + row] = sum;
  }
  __syncwarp();
}

template <class T, bool kIsMasked>
template <int kDim, int kColumns>
__device__ void AttentionKernel<T, kIsMasked>::give_queries(const WarpRows& at,
                                                            const Sums (&gradient)[kColumns],
                                                            T* tile) const {
  using Tile = AttentionTile<T, kDim>;
  const float factor = gradient_scale(*this);
  put_sums<kDim>(gradient, factor, factor, tile + at.row * Tile::kStride);
  __syncthreads();
  write_rows<kDim, Tile::kOwned>(tile, packed_head(shape, dqkv, at.sample, at.head), at.first,
                                 length, dim, packs);
}

// at.head: of keys. `column`: where the columns of these sums begin.
template <class T, bool kIsMasked>
template <int kDim, int kColumns>
__device__ void AttentionKernel<T, kIsMasked>::give_keys(const WarpRows& at, int column,
                                                         const Sums (&dkeys)[kColumns],
                                                         const Sums (&dvalues)[kColumns],
                                                         T* keys_tile, T* values_tile) const {
  using Tile = AttentionTile<T, kDim>;
  const float factor = gradient_scale(*this);
  put_sums<kDim>(dkeys, factor, factor, keys_tile + at.row * Tile::kStride + column);
  put_sums<kDim>(dvalues, 1.0F, 1.0F, values_tile + at.row * Tile::kStride + column);
  __syncthreads();
  const int64_t head = shape.heads + at.head;
  write_rows<kDim, Tile::kOwned>(keys_tile, packed_head(shape, dqkv, at.sample, head), at.first,
                                 length, dim, packs);
  write_rows<kDim, Tile::kOwned>(values_tile,
                                 packed_head(shape, dqkv, at.sample, head + shape.kv_heads),
                                 at.first, length, dim, packs);
}

}  // namespace ds::kernels::detail
