// Attention of one new position on CUDA devices: a block of threads per query head, whose warps
// take turns with the keys and put together at the end what each has found.
#include "core/device/dispatch.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/attention/cuda/tiles.cuh"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"

namespace ds::kernels::detail {
namespace {

constexpr int kWarps = 4;

struct Seen {
  AttentionShape shape;
  int64_t first_key, capacity;
  float scale, softcap;
};

template <class T, int kDim>
__global__ void decode_kernel(Seen seen, const T* q, const T* keys, const T* values, T* y) {
  constexpr int kPerLane = kDim / cuda::kWarp;
  const AttentionShape& s = seen.shape;
  DS_SHARED(float, most_of, kWarps);
  DS_SHARED(float, total_of, kWarps);
  DS_SHARED(float, out_of, kWarps* kDim);
  const int lane = static_cast<int>(threadIdx.x) % cuda::kWarp;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  const int64_t sample = blockIdx.x / s.heads;
  const int64_t key_head = blockIdx.x % s.heads / (s.heads / s.kv_heads);
  const int64_t query_at = blockIdx.x * s.head_dim;
  const int64_t cache_at = (sample * seen.capacity * s.kv_heads + key_head) * s.head_dim;
  const int64_t stride = s.kv_heads * s.head_dim;
  float most = -INFINITY;
  float total = 0;
  float out[kPerLane] = {};
  for (int64_t key = seen.first_key + warp; key < s.length; key += kWarps) {
    const int64_t at = cache_at + key * stride;
    float score = 0;
    for (int64_t c = lane; c < s.head_dim; c += cuda::kWarp) {
      score = fmaf(static_cast<float>(q[query_at + c]), static_cast<float>(keys[at + c]), score);
    }
    score = cuda::warp_reduce(score, cuda::Plus{}) * seen.scale;
    if (seen.softcap > 0) score = seen.softcap * tanhf(score / seen.softcap);
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

void attention_decode_cuda(Stream& stream, const DecodeOperands& o) {
  using cuda::elements;
  const Seen seen{.shape = o.shape,
                  .first_key = o.first_key,
                  .capacity = o.capacity,
                  .scale = o.scale,
                  .softcap = o.softcap};
  on_float(o.q.dtype(), [&]<class T>() {
    on_head_dim(o.shape.head_dim, [&]<int kDim>() {
      cuda::launch("attention_decode", decode_kernel<T, kDim>,
                   {.blocks = o.shape.batch * o.shape.heads, .threads = kWarps * cuda::kWarp},
                   stream, seen, elements<const T>(o.q), elements<const T>(o.keys),
                   elements<const T>(o.values), elements<T>(o.y));
    });
  });
}

}  // namespace ds::kernels::detail
