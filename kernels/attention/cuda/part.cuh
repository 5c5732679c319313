// Parts of attention on CUDA devices: the kernels of whole sequences, whose operands lie apart.
// What queries have seen before is where they begin, and results are fp32 sums that a lane adds to
// where they lie: each element has one lane, so every run has the same bits.
#pragma once

#include "core/device/dispatch.h"
#include "kernels/attention/cuda/attention_part_cuda.h"
#include "kernels/attention/cuda/backward.cuh"
#include "kernels/attention/cuda/forward.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/rows.cuh"

namespace ds::kernels::detail {

// Pointers are those of the first row of the part.
template <class T, bool kIsMasked>
struct PartKernel {
  using Element = T;
  static constexpr bool kMasked = kIsMasked;
  static constexpr bool kMayDrop = false;
  static constexpr int kPromised = 2;  // see query_kernel

  AttentionShape shape;               // of the tensors of queries
  int64_t key_length;                 // rows of a sequence in the tensors of keys
  int64_t packed, width, keys_width;  // of rows of qkv, of outputs and of kv
  int query_count, key_count, dim;
  int reach;      // a query sees keys up to its own row and so many behind it, if not masked
  bool goes_on;   // queries have seen keys before
  bool packs;     // every head's rows are packs of 16 bytes
  SeenKeys seen;  // if masked, as the two that follow
  float scale, softcap;
  const T* qkv;
  const T* kv;
  float* y;
  float* log_sum_exp;
  const T* dy;
  const float* delta;
  float* dq;
  float* dkv;

  __host__ __device__ int queries() const { return query_count; }
  __device__ SeenKeys seen_keys() const { return seen; }
  __host__ __device__ int keys() const { return key_count; }
  __device__ int last_key(int query) const { return std::min(query + reach, key_count - 1); }
  __device__ int first_query(int key) const { return std::max(key - reach, 0); }
  __device__ int64_t number(int64_t sample, int64_t head) const {
    return (sample * shape.heads + head) * shape.length;
  }
  __device__ HeadRows<const T> query_rows(int64_t sample, int64_t head) const {
    return {qkv + sample * shape.length * packed + head * shape.head_dim, packed};
  }
  __device__ HeadRows<const T> key_rows(int64_t sample, int64_t key_head) const {
    return {kv + of_keys(sample, key_head), keys_width};
  }
  __device__ HeadRows<const T> value_rows(int64_t sample, int64_t key_head) const {
    return {kv + of_keys(sample, shape.kv_heads + key_head), keys_width};
  }
  __device__ HeadRows<const T> dy_rows(int64_t sample, int64_t head) const {
    return {dy + of_outputs(sample, head), width};
  }

  template <class Progress>
  __device__ void begin(const WarpRows& at, Progress& progress) const;
  template <int kDim, class Progress>
  __device__ void end(const WarpRows& at, const Progress& progress, T* /*tile*/) const;
  __device__ void find_deltas(const WarpRows& at, float* deltas) const;
  template <int kDim, int kColumns>
  __device__ void give_queries(const WarpRows& at, const Sums (&gradient)[kColumns],
                               T* /*tile*/) const;
  template <int kDim, int kColumns>
  __device__ void give_keys(const WarpRows& at, int column, const Sums (&dkeys)[kColumns],
                            const Sums (&dvalues)[kColumns], T* /*keys*/, T* /*values*/) const;

 private:
  __device__ int64_t of_outputs(int64_t sample, int64_t head) const {
    return sample * shape.length * width + head * shape.head_dim;
  }
  __device__ int64_t of_keys(int64_t sample, int64_t head) const {
    return sample * key_length * keys_width + head * shape.head_dim;
  }
};

// Calls f(element, sum, half) for each of this lane's sums of 16 rows from `first` on whose row and
// column are there; half: as of Progress.
template <class F, int kColumns, class Row>
__device__ void for_each_there(HeadRows<float> rows, int first, int count, int column, int dim,
                               Row (&sums)[kColumns], const F& f) {
  DS_UNROLL
  for (int n = 0; n < kColumns; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = first + row_of(i);
      const int at = column + column_of(n, i);
      if (row < count && at < dim) f(rows.at(row)[at], sums[n][i], i / 2);
    }
    asm volatile("" ::: "memory");  // all tiles at once would be more than there are registers for
  }
}

template <int kColumns>
__device__ void add_sums(HeadRows<float> rows, int first, int count, int column, int dim,
                         float factor, const Sums (&sums)[kColumns]) {
  for_each_there(rows, first, count, column, dim, sums,
                 [&](float& to, float sum, int /*half*/) { to += sum * factor; });
}

// As it was kept: a total of 1, relative to the log-sum-exp. One of the lanes that share a row has
// it.
template <class T, bool kIsMasked>
template <class Progress>
__device__ void PartKernel<T, kIsMasked>::begin(const WarpRows& at, Progress& progress) const {
  if (!goes_on) return;
  const int first = at.first + at.row;
  for (int half = 0; half < 2; ++half) {
    const int query = first + row_of(2 * half);
    if (query >= query_count) continue;
    progress.most[half] = log_sum_exp[number(at.sample, at.head) + query] * kLog2E;
    progress.total[half] = cuda::lane_of_warp() % 4 == 0 ? 1.0F : 0.0F;
  }
  for_each_there({y + of_outputs(at.sample, at.head), width}, first, query_count, 0, dim,
                 progress.out, [](float from, float& sum, int /*half*/) { sum = from; });
}

template <class T, bool kIsMasked>
template <int kDim, class Progress>
__device__ void PartKernel<T, kIsMasked>::end(const WarpRows& at, const Progress& progress,
                                              T* /*tile*/) const {
  const int first = at.first + at.row;
  float factor[2];
  for (int half = 0; half < 2; ++half) {
    const float total = row_reduce(progress.total[half], cuda::Plus{});
    factor[half] = kIsMasked && total == 0 ? 0.0F : 1.0F / total;
    const int query = first + row_of(2 * half);
    if (query < query_count && cuda::lane_of_warp() % 4 == 0) {
      log_sum_exp[number(at.sample, at.head) + query] = progress.most[half] / kLog2E + logf(total);
    }
  }
  for_each_there({y + of_outputs(at.sample, at.head), width}, first, query_count, 0, dim,
                 progress.out, [&](float& to, float sum, int half) { to = sum * factor[half]; });
}

template <class T, bool kIsMasked>
__device__ void PartKernel<T, kIsMasked>::find_deltas(const WarpRows& at, float* deltas) const {
  const int lane = cuda::lane_of_warp();
  const int query = at.first + at.row + lane;
  if (lane < cuda::kTileRows) {
    deltas[lane] = query < query_count ? delta[number(at.sample, at.head) + query] : 0.0F;
  }
  __syncwarp();
}

template <class T, bool kIsMasked>
template <int kDim, int kColumns>
__device__ void PartKernel<T, kIsMasked>::give_queries(const WarpRows& at,
                                                       const Sums (&gradient)[kColumns],
                                                       T* /*tile*/) const {
  add_sums({dq + of_outputs(at.sample, at.head), width}, at.first + at.row, query_count, 0, dim,
           gradient_scale(*this), gradient);
}

template <class T, bool kIsMasked>
template <int kDim, int kColumns>
__device__ void PartKernel<T, kIsMasked>::give_keys(const WarpRows& at, int column,
                                                    const Sums (&dkeys)[kColumns],
                                                    const Sums (&dvalues)[kColumns], T* /*keys*/,
                                                    T* /*values*/) const {
  const int first = at.first + at.row;
  add_sums({dkv + of_keys(at.sample, at.head), keys_width}, first, key_count, column, dim,
           gradient_scale(*this), dkeys);
  add_sums({dkv + of_keys(at.sample, shape.kv_heads + at.head), keys_width}, first, key_count,
           column, dim, 1.0F, dvalues);
}

// What both passes are given; pointers to results are the caller's.
template <class T, bool kIsMasked>
PartKernel<T, kIsMasked> part_kernel(const AttentionPart& part, const Tensor& qkv,
                                     const Tensor& kv) {
  const SequencePart& queries = part.queries;
  const SequencePart& keys = part.keys;
  PartKernel<T, kIsMasked> a{};
  a.shape = {.batch = part.batch,
             .length = queries.length,
             .heads = part.heads,
             .kv_heads = part.kv_heads,
             .head_dim = part.head_dim};
  a.key_length = keys.length;
  a.packed = a.shape.packed();
  a.width = part.heads * part.head_dim;
  a.keys_width = 2 * part.kv_heads * part.head_dim;
  a.query_count = narrow<int>(queries.count);
  a.key_count = narrow<int>(keys.count);
  a.dim = narrow<int>(part.head_dim);
  a.seen = detail::seen_keys(part);
  a.reach = std::min(a.seen.right + a.seen.shift(), a.key_count);
  a.scale = scale_of(part.scale, part.head_dim);
  a.softcap = part.softcap;
  a.qkv = cuda::elements<const T>(qkv) + queries.first * a.packed;
  a.kv = cuda::elements<const T>(kv) + keys.first * a.keys_width;
  a.packs = cuda::rows_are_packs<cuda::kPackOf<T>>(part.head_dim, a.qkv, a.kv);
  return a;
}

// These are for parts that are not plain.
void masked_part_forward(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                         const Tensor& kv, Tensor& y, Tensor& log_sum_exp, Write write);
void masked_part_backward(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                          const Tensor& kv, const AttentionPartGrads& grads);

template <class T, bool kIsMasked>
inline constexpr int64_t kMostDimOfPart = kIsMasked && sizeof(T) == 4 ? kMostMaskedDimOfFp32Parts
                                                                      : kMostHeadDim;

template <bool kIsMasked>
void part_forward(Stream& stream, const AttentionPart& part, const Tensor& qkv, const Tensor& kv,
                  Tensor& y, Tensor& log_sum_exp, Write write) {
  on_float(qkv.dtype(), [&]<class T>() {
    auto a = part_kernel<T, kIsMasked>(part, qkv, kv);
    a.goes_on = write == Write::kAccumulate;
    a.y = cuda::elements<float>(y) + part.queries.first * a.width;
    a.log_sum_exp = cuda::elements<float>(log_sum_exp) + part.queries.first;
    on_head_dim<kMostDimOfPart<T, kIsMasked>>(part.head_dim, [&]<int kDim>() {
      launch_forward<kDim>("attention_part_forward", stream, a);
    });
  });
}

template <bool kIsMasked>
void part_backward(Stream& stream, const AttentionPart& part, const Tensor& qkv, const Tensor& kv,
                   const AttentionPartGrads& grads) {
  on_float(qkv.dtype(), [&]<class T>() {
    auto a = part_kernel<T, kIsMasked>(part, qkv, kv);
    a.dy = cuda::elements<const T>(grads.dy) + part.queries.first * a.width;
    a.packs = a.packs && cuda::rows_are_packs<cuda::kPackOf<T>>(part.head_dim, a.dy);
    a.log_sum_exp = cuda::elements<float>(grads.log_sum_exp) + part.queries.first;
    a.delta = cuda::elements<float>(grads.delta) + part.queries.first;
    a.dq = cuda::elements<float>(grads.dq) + part.queries.first * a.width;
    a.dkv = cuda::elements<float>(grads.dkv) + part.keys.first * a.keys_width;
    on_head_dim<kMostDimOfPart<T, kIsMasked>>(part.head_dim, [&]<int kDim>() {
      launch_backward<kDim>({.of_queries = "attention_part_backward of queries",
                             .of_keys = "attention_part_backward of keys"},
                            stream, a);
    });
  });
}

}  // namespace ds::kernels::detail
