// Attention of one new position on CUDA devices: a block of threads per query head, whose warps
// take turns with the keys and put together at the end what each has found.
#include "core/dispatch.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/tiles.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ds::kernels::detail {
namespace {

constexpr int kWarps = 4;

template <class T, int kDim>
__global__ void decode_kernel(AttentionShape s, int64_t capacity, const T* q, const T* keys,
                              const T* values, T* y) {
  constexpr int kPerLane = kDim / cuda::kWarp;
  DS_SHARED(float, most_of, kWarps);
  DS_SHARED(float, total_of, kWarps);
  DS_SHARED(float, out_of, kWarps* kDim);
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  const int64_t sample = blockIdx.x / s.heads;
  const int64_t key_head = blockIdx.x % s.heads / (s.heads / s.kv_heads);
  const int64_t query_at = blockIdx.x * s.head_dim;
  const int64_t cache_at = (sample * capacity * s.kv_heads + key_head) * s.head_dim;
  const int64_t stride = s.kv_heads * s.head_dim;
  const float scale = 1.0F / sqrtf(static_cast<float>(s.head_dim));
  float most = -INFINITY;
  float total = 0;
  float out[kPerLane] = {};
  for (int64_t key = warp; key < s.length; key += kWarps) {
    const int64_t at = cache_at + key * stride;
    float score = 0;
    for (int64_t c = lane; c < s.head_dim; c += cuda::kWarp) {
      score = fmaf(static_cast<float>(q[query_at + c]), static_cast<float>(keys[at + c]), score);
    }
    score = cuda::warp_reduce(score, cuda::Plus{}) * scale;
    const float before = most;
    most = fmaxf(most, score);
    const float shrink = expf(before - most);
    const float weight = expf(score - most);
    total = total * shrink + weight;
    DS_UNROLL
    for (int i = 0; i < kPerLane; ++i) {
      const int c = lane + i * cuda::kWarp;
      if (c >= s.head_dim) continue;
      out[i] = fmaf(weight, static_cast<float>(values[at + c]), out[i] * shrink);
    }
  }
  if (lane == 0) {
    most_of[warp] = most;
    total_of[warp] = total;
  }
  DS_UNROLL
  for (int i = 0; i < kPerLane; ++i) out_of[warp * kDim + lane + i * cuda::kWarp] = out[i];
  __syncthreads();
  float largest = -INFINITY;
  for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, most_of[w]);
  for (int64_t c = threadIdx.x; c < s.head_dim; c += blockDim.x) {
    float sum = 0;
    float weights = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float share = expf(most_of[w] - largest);  // 0 of warps that had no key
      sum = fmaf(share, out_of[w * kDim + c], sum);
      weights = fmaf(share, total_of[w], weights);
    }
    y[query_at + c] = static_cast<T>(sum / weights);
  }
}

}  // namespace

void attention_decode_cuda(Stream& stream, const AttentionShape& shape, const Tensor& q,
                           const Tensor& cache_k, const Tensor& cache_v, int64_t capacity,
                           Tensor& y) {
  using cuda::elements;
  on_float(q.dtype(), [&]<class T>() {
    on_head_dim(shape.head_dim, [&]<int kDim>() {
      cuda::launch("attention_decode", decode_kernel<T, kDim>,
                   {.blocks = shape.batch * shape.heads, .threads = kWarps * cuda::kWarp}, stream,
                   shape, capacity, elements<const T>(q), elements<const T>(cache_k),
                   elements<const T>(cache_v), elements<T>(y));
    });
  });
}

}  // namespace ds::kernels::detail
