// Frozen weights in blocks on CUDA devices. A block of threads packs one of weights at a time; to
// unpack, threads go over packs of 8 weights, which makes accesses of 16 bytes to 16-bit numbers,
// or over the pairs that share a byte of codes. Tables lie in shared memory.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/quantize/cuda/block_codes_cuda.h"
#include "kernels/quantize/groups.cuh"

namespace ds::kernels::detail {
namespace {

using cuda::kPair;
using cuda::kWide;

// As many as ranks or codes of a table can be.
constexpr int kMostLevels = 256;

template <class T>
__global__ void pack_kernel(PackedBlocks to, BlockLevels levels, const T* weights, int32_t* unfit) {
  DS_SHARED(float, midpoint, kMostLevels);
  DS_SHARED(uint8_t, code, kMostLevels);
  const auto step = static_cast<int64_t>(blockDim.x);
  for (int64_t i = threadIdx.x; i < kMostLevels; i += step) {
    if (i < kMostLevels - 1) midpoint[i] = levels.midpoint[i];
    code[i] = levels.code[i];
  }
  __syncthreads();
  const cuda::NumberSource<T> source{weights};
  for (int64_t block = blockIdx.x; block < to.blocks; block += gridDim.x) {
    const int64_t first = block * to.block, end = first + to.block;
    Range range;
    for (int64_t i = first + threadIdx.x; i < end; i += step) {
      const auto x = static_cast<float>(weights[i]);
      range = joined(range, {x, x});
    }
    const float absmax = usable_absmax(largest_magnitude(cuda::of_block(range)));
    const float reciprocal = reciprocal_absmax(absmax);
    if (threadIdx.x == 0) {
      to.set_scale(block, absmax);
      if (!scale_fits(to.scale, absmax)) atomicAdd(unfit, int32_t{1});
    }
    for (int64_t i = first + int64_t{threadIdx.x} * kPair; i < end; i += step * kPair) {
      float pair[kPair];
      source.template read<kPair>(i, end, pair);
      uint8_t codes[kPair];
      for (int k = 0; k < kPair; ++k) {
        const float x = over_absmax(pair[k], reciprocal);
        codes[k] = code[level_rank(midpoint, levels.first_step, x)];
      }
      if (to.has_halves()) {
        to.codes[i / 2] = packed_nibbles(codes[0], codes[1]);
      } else {
        for (int k = 0; k < kPair; ++k) to.codes[i + k] = codes[k];
      }
    }
  }
}

// The codes of N neighbouring weights, N even.
template <int N>
__device__ void read_codes(const PackedBlocks& from, int64_t first, int* codes) {
  const uint8_t* const all = from.codes;
  if (from.has_halves()) {
    const auto pack = cuda::load<N / 2>(all + first / 2);
    for (int i = 0; i < N; ++i) codes[i] = nibble(pack.values[i / 2], i % 2 == 0);
  } else if constexpr (N == kWide) {
    const auto pack = cuda::load<N>(all + first);
    for (int i = 0; i < N; ++i) codes[i] = pack.values[i];
  } else {
    for (int i = 0; i < N; ++i) codes[i] = all[first + i];
  }
}

bool codes_are_packs(const PackedBlocks& from) {
  return from.has_halves() ? cuda::is_aligned<kWide / 2>(from.codes)
                           : cuda::is_aligned<kWide>(from.codes);
}

// `shift`: blocks are of 2^shift weights, or -1: a division of 64 bits takes longer than memory.
template <int N, class T>
__global__ void unpack_kernel(PackedBlocks from, BlockLevels levels, int shift, T* weights) {
  DS_SHARED(float, level, kMostLevels);
  for (int i = static_cast<int>(threadIdx.x); i < kMostLevels; i += static_cast<int>(blockDim.x)) {
    level[i] = levels.level[i];
  }
  __syncthreads();
  const cuda::NumberSink<T> sink{weights};
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t numel = from.numel();
  for (int64_t first = begin * N; first < numel; first += threads * N) {
    const float scale = from.scale_of(shift < 0 ? first / from.block : first >> shift);
    int codes[N];
    read_codes<N>(from, first, codes);
    float numbers[N];
    for (int i = 0; i < N; ++i) numbers[i] = product(level[codes[i]], scale);
    sink.template write<N>(first, numel, numbers);
  }
}

int shift_of(int64_t block) {
  const auto size = static_cast<uint64_t>(block);
  return std::has_single_bit(size) ? std::countr_zero(size) : -1;
}

}  // namespace

void pack_blocks_cuda(Stream& stream, const Tensor& weights, const PackedBlocks& to,
                      const Tensor& unfit) {
  on_float(weights.dtype(), [&]<class T>() {
    cuda::launch("pack_blocks", pack_kernel<T>, cuda::shape_for_rows(to.blocks, to.block / kPair),
                 stream, to, block_levels(to.table), cuda::elements<const T>(weights),
                 cuda::elements<int32_t>(unfit));
  });
}

void unpack_blocks_cuda(Stream& stream, const PackedBlocks& from, const Tensor& weights) {
  on_float(weights.dtype(), [&]<class T>() {
    auto* const to = cuda::elements<T>(weights);
    const bool wide =
        from.block % kWide == 0 && codes_are_packs(from) && cuda::is_aligned<kWide>(to);
    const int64_t each = wide ? kWide : kPair;
    const auto kernel = wide ? unpack_kernel<kWide, T> : unpack_kernel<kPair, T>;
    cuda::launch("unpack_blocks", kernel, cuda::shape_for(from.numel() / each), stream, from,
                 block_levels(from.table), shift_of(from.block), to);
  });
}

}  // namespace ds::kernels::detail
