// Products of small matrices by a warp (mma.sync), and how their operands come from shared memory.
// A product is D[16, 8] += A[16, kDepth] * B[kDepth, 8], accumulated in fp32. Each lane holds parts
// of all three, in the layout of the PTX ISA ("Warp-level matrix instructions"): with g = lane / 4
// and t = lane % 4, sums[0..1] are D[g][2t..2t+1] and sums[2..3] D[g + 8][2t..2t+1].
//
// fp32 operands are two tf32 numbers each, of which three products are added: 22 bits of them
// count, not 11.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/values/dtype.h"
#include "kernels/cuda/launch.cuh"
#if !defined(__CUDACC__)
#include "kernels/cuda/on_host_mma.h"
#endif

namespace ds::cuda {

using Sums = std::array<float, 4>;

inline constexpr int kTileRows = 16;    // of A and D
inline constexpr int kTileColumns = 8;  // of B and D

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }

// The four 8x8 matrices of 16-bit elements whose 32 rows the lanes point at, 16 bytes each; of
// matrix i every lane gets elements [g][2t..2t+1], or [2t..2t+1][g] where they are transposed.
template <bool kTransposed>
__device__ std::array<uint32_t, 4> load_matrices(const void* row) {
  std::array<uint32_t, 4> words{};
#if defined(__CUDACC__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at)
                 : "memory");
  }
#else
  on_host::load_matrices(row, kTransposed, words);
#endif
  return words;
}

// Operands of 16 bits: BF16 or F16.
template <class T>
struct HalfMma {
  static constexpr int kDepth = 16;
  using A = std::array<uint32_t, 4>;
  using B = std::array<uint32_t, 2>;

  // A of the 16 rows that begin at `tile`, `stride` elements apart.
  static __device__ A load_a(const T* tile, int stride) {
    const int lane = lane_of_warp();
    return load_matrices<false>(tile + lane % 16 * stride + lane / 16 * 8);
  }
  // A whose columns lie as rows: A[m][k] at tile[k * stride + m].
  static __device__ A load_a_columns(const T* tile, int stride) {
    const int lane = lane_of_warp();
    return load_matrices<true>(tile + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8);
  }
  // Two B side by side, 16 columns, which lie as rows: B[k][n] at tile[n * stride + k].
  static __device__ std::array<B, 2> load_b(const T* tile, int stride) {
    const int lane = lane_of_warp();
    return two(load_matrices<false>(tile + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8));
  }
  // The same, B[k][n] at tile[k * stride + n].
  static __device__ std::array<B, 2> load_b_rows(const T* tile, int stride) {
    const int lane = lane_of_warp();
    return two(load_matrices<true>(tile + lane % 16 * stride + lane / 16 * 8));
  }
  // A whose columns are those of the D at `sums` and what follows it, rounded to T.
  static __device__ A from_sums(const Sums* sums) {
    return {pair(sums[0][0], sums[0][1]), pair(sums[0][2], sums[0][3]),
            pair(sums[1][0], sums[1][1]), pair(sums[1][2], sums[1][3])};
  }
  static __device__ void multiply(const A& a, const B& b, Sums& sums);

 private:
  static __device__ std::array<B, 2> two(const std::array<uint32_t, 4>& words) {
    return {B{words[0], words[1]}, B{words[2], words[3]}};
  }
  static __device__ uint32_t pair(float low, float high) {
    uint32_t word = 0;
#if defined(__CUDACC__)
    if constexpr (std::is_same_v<T, BF16>) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    }
#else
    word = T(low).bits | static_cast<uint32_t>(T(high).bits) << 16;
#endif
    return word;
  }
};

template <class T>
__device__ void HalfMma<T>::multiply(const A& a, const B& b, Sums& sums) {
#if defined(__CUDACC__)
  if constexpr (std::is_same_v<T, BF16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  on_host::multiply<T>(a, b, sums);
#endif
}

// fp32. The depth's order is that in which D lies, so that sums are operands without an exchange:
// where the instruction has columns t and t + 4 of A, here they are 2t and 2t + 1.
struct FloatMma {
  static constexpr int kDepth = 8;
  struct Split {
    uint32_t large, rest;  // tf32
  };
  using A = std::array<Split, 4>;
  using B = std::array<Split, 2>;

  static __device__ A load_a(const float* tile, int stride) {
    const float* const upper = tile + group() * stride + 2 * in_group();
    const float* const lower = upper + 8 * stride;
    return {split(upper[0]), split(lower[0]), split(upper[1]), split(lower[1])};
  }
  static __device__ A load_a_columns(const float* tile, int stride) {
    const float* const even = tile + 2 * in_group() * stride + group();
    const float* const odd = even + stride;
    return {split(even[0]), split(even[8]), split(odd[0]), split(odd[8])};
  }
  static __device__ std::array<B, 2> load_b(const float* tile, int stride) {
    const float* const first = tile + group() * stride + 2 * in_group();
    const float* const second = first + 8 * stride;
    return {B{split(first[0]), split(first[1])}, B{split(second[0]), split(second[1])}};
  }
  static __device__ std::array<B, 2> load_b_rows(const float* tile, int stride) {
    const float* const even = tile + 2 * in_group() * stride + group();
    const float* const odd = even + stride;
    return {B{split(even[0]), split(odd[0])}, B{split(even[8]), split(odd[8])}};
  }
  static __device__ A from_sums(const Sums* sums) {
    const Sums& s = sums[0];
    return {split(s[0]), split(s[2]), split(s[1]), split(s[3])};
  }
  static __device__ void multiply(const A& a, const B& b, Sums& sums) {
    product({a[0].rest, a[1].rest, a[2].rest, a[3].rest}, {b[0].large, b[1].large}, sums);
    product({a[0].large, a[1].large, a[2].large, a[3].large}, {b[0].rest, b[1].rest}, sums);
    product({a[0].large, a[1].large, a[2].large, a[3].large}, {b[0].large, b[1].large}, sums);
  }

 private:
  static __device__ int group() { return lane_of_warp() / 4; }
  static __device__ int in_group() { return lane_of_warp() % 4; }
  // The rest of an infinity is NaN, and so is the product.
  static __device__ Split split(float x) {
    const uint32_t large = rounded(x);
    return {large, rounded(x - std::bit_cast<float>(large))};
  }
  static __device__ uint32_t rounded(float x) {
    return (std::bit_cast<uint32_t>(x) + 0x1000U) & 0xffffe000U;
  }
  static __device__ void product(const std::array<uint32_t, 4>& a, const std::array<uint32_t, 2>& b,
                                 Sums& sums) {
#if defined(__CUDACC__)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    on_host::multiply_tf32(a, b, sums);
#endif
  }
};

template <class T>
struct MmaOf {
  using Type = HalfMma<T>;
};
template <>
struct MmaOf<float> {
  using Type = FloatMma;
};
template <class T>
using Mma = typename MmaOf<T>::Type;

}  // namespace ds::cuda
