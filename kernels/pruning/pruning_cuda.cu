// Masks of the largest elements on CUDA devices, by radix selection: four passes count the bytes of
// the elements' keys, from the highest, and each finds the next byte of the smallest key that is
// kept. Of the elements with that key as many are kept as are still wanted, by position: chunks
// count theirs, and the counts are added up in order. Only integers are added, so nothing depends
// on who comes first.
#include "core/device/dispatch.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/pruning/pruning_cuda.h"
#include "kernels/quantize/levels.h"

namespace ds::kernels::detail {
namespace {

using Count = unsigned long long;  // NOLINT(google-runtime-int): what atomicAdd takes

constexpr std::string_view kName = "largest_mask";
constexpr int kDigits = 256;  // and threads of a block
constexpr int kOfThread = 8;
constexpr int64_t kChunk = int64_t{kDigits} * kOfThread;  // elements of a block at a time

struct Selection {
  uint32_t key;    // bytes found so far, then zeros
  int64_t wanted;  // elements with these bytes that are kept
  Count counts[kDigits];
};

// The keys of neighbours; behind the end, 0.
template <bool kPacks, class T>
__device__ void read_keys(const T* x, int64_t first, int64_t numel, uint32_t* keys) {
  if (kPacks && first + kOfThread <= numel) {
    const cuda::Pack<T, kOfThread> pack = cuda::load<kOfThread>(x + first);
    for (int i = 0; i < kOfThread; ++i) keys[i] = order_of(static_cast<float>(pack.values[i]));
  } else {
    for (int i = 0; i < kOfThread; ++i) {
      keys[i] = first + i < numel ? order_of(static_cast<float>(x[first + i])) : 0;
    }
  }
}

__global__ void begin_kernel(int64_t kept, Selection* selection) {
  selection->counts[threadIdx.x] = 0;
  if (threadIdx.x != 0) return;
  selection->key = 0;
  selection->wanted = kept;
}

// Counts the byte at `shift` of the keys whose higher bytes are those found.
template <bool kPacks, class T>
__global__ void count_kernel(int64_t numel, int shift, const T* x, Selection* selection) {
  DS_SHARED(Count, counts, kDigits);
  counts[threadIdx.x] = 0;
  __syncthreads();
  const uint64_t found = uint64_t{selection->key} >> (shift + 8);
  for (int64_t chunk = blockIdx.x; chunk * kChunk < numel; chunk += gridDim.x) {
    const int64_t first = chunk * kChunk + int64_t{threadIdx.x} * kOfThread;
    uint32_t keys[kOfThread];
    read_keys<kPacks>(x, first, numel, keys);
    for (int i = 0; i < kOfThread; ++i) {
      const bool counts_here = first + i < numel && uint64_t{keys[i]} >> (shift + 8) == found;
      if (counts_here) atomicAdd(&counts[keys[i] >> shift & 255U], Count{1});
    }
  }
  __syncthreads();
  if (counts[threadIdx.x] != 0) atomicAdd(&selection->counts[threadIdx.x], counts[threadIdx.x]);
}

// The next byte of the key, and room for the next counts.
__global__ void choose_kernel(int shift, Selection* selection) {
  if (threadIdx.x == 0) {
    int64_t wanted = selection->wanted;
    int digit = kDigits - 1;
    while (digit > 0 && wanted > static_cast<int64_t>(selection->counts[digit])) {
      wanted -= static_cast<int64_t>(selection->counts[digit]);
      --digit;
    }
    selection->wanted = wanted;
    selection->key |= static_cast<uint32_t>(digit) << shift;
  }
  __syncthreads();
  selection->counts[threadIdx.x] = 0;
}

template <bool kPacks, class T>
__global__ void equal_kernel(int64_t numel, const T* x, const Selection* selection,
                             int64_t* of_chunks) {
  for (int64_t chunk = blockIdx.x; chunk * kChunk < numel; chunk += gridDim.x) {
    const int64_t first = chunk * kChunk + int64_t{threadIdx.x} * kOfThread;
    uint32_t keys[kOfThread];
    read_keys<kPacks>(x, first, numel, keys);
    int equal = 0;
    for (int i = 0; i < kOfThread; ++i) {
      if (first + i < numel && keys[i] == selection->key) ++equal;
    }
    equal = cuda::block_sum(equal);
    if (threadIdx.x == 0) of_chunks[chunk] = equal;
  }
}

// One block: each count becomes the sum of those before it.
__global__ void positions_kernel(int64_t chunks, int64_t* of_chunks) {
  DS_SHARED(int64_t, sums, kDigits);
  const int64_t share = (chunks + blockDim.x - 1) / blockDim.x;
  const int64_t begin = share * threadIdx.x;
  const int64_t end = begin + share < chunks ? begin + share : chunks;
  int64_t sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += of_chunks[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  int64_t before = 0;
  for (unsigned i = 0; i < threadIdx.x; ++i) before += sums[i];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t own = of_chunks[i];
    of_chunks[i] = before;
    before += own;
  }
}

// Returns the sum of `own` over the threads of the block that come before this one; `counts` is
// shared memory for one each.
__device__ int sum_before(int own, int* counts) {
  counts[threadIdx.x] = own;
  __syncthreads();
  int sum = 0;
  for (unsigned i = 0; i < threadIdx.x; ++i) sum += counts[i];
  __syncthreads();  // before the next chunk's
  return sum;
}

template <bool kPacks, class T>
__global__ void mask_kernel(int64_t numel, const T* x, const Selection* selection,
                            const int64_t* before_chunks, uint8_t* mask) {
  DS_SHARED(int, counts, kDigits);
  const uint32_t last = selection->key;
  for (int64_t chunk = blockIdx.x; chunk * kChunk < numel; chunk += gridDim.x) {
    const int64_t first = chunk * kChunk + int64_t{threadIdx.x} * kOfThread;
    uint32_t keys[kOfThread];
    read_keys<kPacks>(x, first, numel, keys);
    int equal = 0;
    for (int i = 0; i < kOfThread; ++i) equal += first + i < numel && keys[i] == last ? 1 : 0;
    int64_t position = before_chunks[chunk] + sum_before(equal, counts);
    cuda::Pack<uint8_t, kOfThread> kept;
    for (int i = 0; i < kOfThread; ++i) {
      const bool is_equal = keys[i] == last;
      kept.values[i] = keys[i] > last || (is_equal && position < selection->wanted) ? 1 : 0;
      if (is_equal) ++position;
    }
    if (kPacks && first + kOfThread <= numel) {
      cuda::store(kept, mask + first);
    } else {
      for (int i = 0; i < kOfThread && first + i < numel; ++i) mask[first + i] = kept.values[i];
    }
  }
}

template <bool kPacks, class T>
void select(Stream& stream, int64_t numel, int64_t kept, const T* x, uint8_t* mask) {
  const int64_t chunks = (numel + kChunk - 1) / kChunk;
  const Tensor state = Tensor::empty({sizeof(Selection)}, DType::kU8, stream, MemoryTag::kScratch);
  const Tensor of_chunks = Tensor::empty({chunks}, DType::kI64, stream, MemoryTag::kScratch);
  auto* selection = static_cast<Selection*>(state.address());
  auto* counts = cuda::elements<int64_t>(of_chunks);
  const cuda::LaunchShape one{.blocks = 1, .threads = kDigits};
  const cuda::LaunchShape all = cuda::shape_for(chunks * kDigits, kDigits);
  cuda::launch(kName, begin_kernel, one, stream, kept, selection);
  for (int shift = 24; shift >= 0; shift -= 8) {
    cuda::launch(kName, count_kernel<kPacks, T>, all, stream, numel, shift, x, selection);
    cuda::launch(kName, choose_kernel, one, stream, shift, selection);
  }
  cuda::launch(kName, equal_kernel<kPacks, T>, all, stream, numel, x, selection, counts);
  cuda::launch(kName, positions_kernel, one, stream, chunks, counts);
  cuda::launch(kName, mask_kernel<kPacks, T>, all, stream, numel, x, selection, counts, mask);
}

}  // namespace

void largest_mask_cuda(Stream& stream, const Tensor& x, int64_t kept, const Tensor& mask) {
  if (kept == 0) return stream.fill_bytes(mask.address(), 0, mask.bytes());
  on_float(x.dtype(), [&]<class T>() {
    const auto* from = cuda::elements<const T>(x);
    auto* to = cuda::elements<uint8_t>(mask);
    const bool packs = cuda::is_aligned<kOfThread>(from) && cuda::is_aligned<kOfThread>(to);
    packs ? select<true>(stream, x.numel(), kept, from, to)
          : select<false>(stream, x.numel(), kept, from, to);
  });
}

}  // namespace ds::kernels::detail
