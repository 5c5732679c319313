// Capacities on CUDA devices: a block has an expert. The key of the last choice that stays is found
// by radix selection, eight bits at a time, by sums of integers; of the choices that have this key
// the first ones stay.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/moe/cuda/capacity_cuda.h"
#include "kernels/moe/route_formula.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

constexpr int kThreads = 256;
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr uint32_t kDigitMask = kDigits - 1;

// The choices of one expert.
struct Choices {
  const int32_t* order;
  const float* priorities;
  int64_t count;
  __device__ uint32_t key(int64_t i) const { return order_key(priorities[order[i]]); }
};

// The key of the last choice that stays, and how many of those with this key do.
struct Threshold {
  uint32_t key = 0;
  int32_t stay = 0;
};

__device__ Threshold threshold_of(const Choices& choices, int32_t capacity) {
  DS_SHARED(int32_t, counts, kDigits);
  DS_SHARED(int32_t, found, 2);
  Threshold at{.key = 0, .stay = capacity};
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (int d = static_cast<int>(threadIdx.x); d < kDigits; d += kThreads) counts[d] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < choices.count; i += kThreads) {
      const uint32_t key = choices.key(i);
      const bool is_there = ((key ^ at.key) >> shift) <= kDigitMask;  // the digits before are equal
      if (is_there) atomicAdd(counts + (key >> shift & kDigitMask), 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = kDigits - 1;
      int32_t stay = at.stay;
      for (; stay > counts[digit]; --digit) stay -= counts[digit];
      found[0] = digit;
      found[1] = stay;
    }
    __syncthreads();
    at.key |= static_cast<uint32_t>(found[0]) << shift;
    at.stay = found[1];
  }
  return at;
}

// Each thread has a piece of the choices, and learns how many with the threshold's key come before.
__device__ void drop_below(const Choices& choices, const Threshold& at, int32_t* experts) {
  DS_SHARED(int32_t, equal, kThreads + 1);
  const int64_t piece = (choices.count + kThreads - 1) / kThreads;
  const int64_t first = int64_t{threadIdx.x} * piece;
  const int64_t past = first + piece < choices.count ? first + piece : choices.count;
  int32_t own = 0;
  for (int64_t i = first; i < past; ++i) own += choices.key(i) == at.key ? 1 : 0;
  equal[threadIdx.x + 1] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    equal[0] = 0;
    for (int t = 0; t < kThreads; ++t) equal[t + 1] += equal[t];
  }
  __syncthreads();
  int32_t before = equal[threadIdx.x];
  for (int64_t i = first; i < past; ++i) {
    const uint32_t key = choices.key(i);
    const bool stays = key > at.key || (key == at.key && before++ < at.stay);
    if (!stays) experts[choices.order[i]] = -1;
  }
  __syncthreads();  // before the next expert's numbers come
}

__global__ void drop_kernel(int64_t count, int64_t capacity, const int32_t* offsets,
                            const int32_t* order, const float* priorities, int32_t* experts) {
  for (int64_t e = blockIdx.x; e < count; e += gridDim.x) {
    const Choices choices{.order = order + offsets[e],
                          .priorities = priorities,
                          .count = offsets[e + 1] - offsets[e]};
    if (choices.count <= capacity) continue;
    if (priorities == nullptr || capacity == 0) {
      for (int64_t i = capacity + threadIdx.x; i < choices.count; i += kThreads) {
        experts[choices.order[i]] = -1;
      }
      continue;
    }
    drop_below(choices, threshold_of(choices, static_cast<int32_t>(capacity)), experts);
  }
}

}  // namespace

void drop_over_capacity_cuda(Stream& stream, const CapacityArgs& args) {
  const int64_t experts = args.offsets.numel() - 1;
  cuda::launch("drop_over_capacity", drop_kernel, cuda::shape_for(experts * kThreads, kThreads),
               stream, experts, args.capacity, elements<const int32_t>(args.offsets),
               elements<const int32_t>(args.order), elements<const float>(args.priorities),
               elements<int32_t>(args.experts));
}

}  // namespace ds::kernels::detail
