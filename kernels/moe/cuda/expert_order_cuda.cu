// The order of experts on CUDA devices: a warp counts a chunk of choices in shared memory, by sums
// of integers; one block finds where the choices of each chunk begin; and a warp places those of a
// chunk, 32 at a time, each behind those of its expert that came before.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/flags.cuh"
#include "kernels/moe/cuda/expert_order_cuda.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;
using cuda::kWarp;

constexpr int64_t kChunk = 512;
constexpr int kScanThreads = 256;

int64_t chunks_of(const ChoiceWalk& walk) { return (walk.length() + kChunk - 1) / kChunk; }

// -1 for none.
__device__ inline int32_t expert_of(const ChoiceWalk& walk, const int32_t* experts, int64_t choice,
                                    uint32_t* flags) {
  const int32_t expert = experts[choice];
  if (expert >= -1 && expert < walk.experts) return expert;
  cuda::set_flag(DeviceFlag::kExpertOutsideLayer, flags);
  return -1;
}

// chunks: [chunks, experts].
__global__ void count_kernel(ChoiceWalk walk, const int32_t* experts, int32_t* chunks,
                             uint32_t* flags) {
  DS_SHARED_OF_LAUNCH(int32_t, counts);
  const int64_t begin = blockIdx.x * kChunk;
  const int64_t end = begin + kChunk < walk.length() ? begin + kChunk : walk.length();
  for (int64_t e = threadIdx.x; e < walk.experts; e += blockDim.x) counts[e] = 0;
  __syncthreads();
  for (int64_t step = begin + threadIdx.x; step < end; step += blockDim.x) {
    const int32_t expert = expert_of(walk, experts, walk.choice_at(step), flags);
    if (expert >= 0) atomicAdd(counts + expert, 1);
  }
  __syncthreads();
  for (int64_t e = threadIdx.x; e < walk.experts; e += blockDim.x) {
    chunks[blockIdx.x * walk.experts + e] = counts[e];
  }
}

// Each count of a chunk becomes how many choices of that expert earlier chunks have.
__global__ void total_kernel(int64_t experts, int64_t count, int32_t* chunks, int32_t* counts) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= experts) return;
  int32_t before = 0;
  for (int64_t chunk = 0; chunk < count; ++chunk) {
    const int32_t own = chunks[chunk * experts + e];
    chunks[chunk * experts + e] = before;
    before += own;
  }
  counts[e] = before;
}

// One block. Each thread has a piece of the experts.
__global__ void offsets_kernel(int64_t experts, const int32_t* counts, int32_t* offsets) {
  DS_SHARED(int32_t, sums, kScanThreads + 1);
  const int64_t piece = (experts + kScanThreads - 1) / kScanThreads;
  const int64_t first = int64_t{threadIdx.x} * piece;
  const int64_t past = first + piece < experts ? first + piece : experts;
  int32_t own = 0;
  for (int64_t e = first; e < past; ++e) own += counts[e];
  sums[threadIdx.x + 1] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    sums[0] = 0;
    for (int t = 0; t < kScanThreads; ++t) sums[t + 1] += sums[t];
    offsets[experts] = sums[kScanThreads];
  }
  __syncthreads();
  int32_t next = sums[threadIdx.x];
  for (int64_t e = first; e < past; ++e) {
    offsets[e] = next;
    next += counts[e];
  }
}

// A warp has a chunk.
__global__ void place_kernel(ChoiceWalk walk, const int32_t* experts, const int32_t* chunks,
                             const int32_t* offsets, int32_t* order, int32_t* place) {
  DS_SHARED_OF_LAUNCH(int32_t, next);
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t begin = blockIdx.x * kChunk;
  const int64_t end = begin + kChunk < walk.length() ? begin + kChunk : walk.length();
  for (int64_t e = lane; e < walk.experts; e += kWarp) {
    next[e] = offsets[e] + chunks[blockIdx.x * walk.experts + e];
  }
  __syncwarp();
  for (int64_t first = begin; first < end; first += kWarp) {
    const bool is_there = first + lane < end;
    const int64_t choice = is_there ? walk.choice_at(first + lane) : 0;
    int32_t expert = is_there ? experts[choice] : -1;
    if (expert >= walk.experts) expert = -1;
    int before = 0, behind = 0;  // lanes with the same expert
    for (int other = 0; other < kWarp; ++other) {
      const int32_t its = __shfl_sync(cuda::kAllLanes, expert, other);
      before += its == expert && other < lane ? 1 : 0;
      behind += its == expert && other > lane ? 1 : 0;
    }
    const int32_t at = expert >= 0 ? next[expert] + before : -1;
    __syncwarp();  // before the last of an expert moves on what others read
    if (expert >= 0 && behind == 0) next[expert] = at + 1;
    if (expert >= 0) order[at] = static_cast<int32_t>(choice);
    if (is_there) place[choice] = at;
    __syncwarp();
  }
}

__global__ void rest_kernel(ChoiceWalk walk, const int32_t* offsets, int32_t* order) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = offsets[walk.experts] + first; i < walk.length(); i += threads) order[i] = -1;
}

// Leaves in the result how many choices of each expert earlier chunks have.
Tensor count_chunks(Stream& stream, const ChoiceWalk& walk, const Tensor& experts,
                    const Tensor& counts) {
  const int64_t chunks = chunks_of(walk);
  Tensor of_chunks =
      Tensor::empty({chunks * walk.experts}, DType::kI32, stream, MemoryTag::kScratch);
  cuda::launch("count_choices", count_kernel,
               {.blocks = chunks,
                .threads = 4 * kWarp,
                .shared_bytes = to_size(walk.experts) * sizeof(int32_t)},
               stream, walk, elements<const int32_t>(experts), elements<int32_t>(of_chunks),
               DeviceFlags(stream).word());
  const int threads = 2 * kWarp;
  cuda::launch("count_choices", total_kernel,
               {.blocks = (walk.experts + threads - 1) / threads, .threads = threads}, stream,
               walk.experts, chunks, elements<int32_t>(of_chunks), elements<int32_t>(counts));
  return of_chunks;
}

}  // namespace

void sort_by_expert_cuda(Stream& stream, const ChoiceWalk& walk, const Tensor& experts,
                         const ExpertOrder& to) {
  const Tensor chunks = count_chunks(stream, walk, experts, to.counts);
  cuda::launch("sort_by_expert", offsets_kernel, {.blocks = 1, .threads = kScanThreads}, stream,
               walk.experts, elements<const int32_t>(to.counts), elements<int32_t>(to.offsets));
  cuda::launch("sort_by_expert", place_kernel,
               {.blocks = chunks_of(walk),
                .threads = kWarp,
                .shared_bytes = to_size(walk.experts) * sizeof(int32_t)},
               stream, walk, elements<const int32_t>(experts), elements<const int32_t>(chunks),
               elements<const int32_t>(to.offsets), elements<int32_t>(to.order),
               elements<int32_t>(to.place));
  cuda::launch("sort_by_expert", rest_kernel, cuda::shape_for(walk.length()), stream, walk,
               elements<const int32_t>(to.offsets), elements<int32_t>(to.order));
}

void count_choices_cuda(Stream& stream, const ChoiceWalk& walk, const Tensor& experts,
                        Tensor& counts) {
  count_chunks(stream, walk, experts, counts);
}

}  // namespace ds::kernels::detail
