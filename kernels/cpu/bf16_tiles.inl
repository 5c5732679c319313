// Products of bf16 by the CPU's own instructions (AVX512-BF16), and the rows between them: panels
// of pairs, tiles of sums, softmax of a row. VDPBF16PS adds two products to a sum of fp32: first
// that of the later numbers of a pair, then that of the earlier ones, each time rounded once, to
// nearest even. Numbers below the normal range are zero to it and to the conversions to bf16, as
// operands and as results; what a thread has set for rounding and denormals counts for nothing.
//
// Debian's Highway (1.0.3) has no such target. Between DS_BF16_DOTS_BEGIN and DS_BF16_DOTS_END
// functions are compiled for it; they are called only where has_bf16_dots() (kernels/cpu/simd.h).
#pragma once

#include <hwy/base.h>

// GCC 12 calls the lanes that its own intrinsics leave open uninitialised (PR 105593).
HWY_DIAGNOSTICS(push)
#if HWY_COMPILER_GCC_ACTUAL
HWY_DIAGNOSTICS_OFF(disable : 4701, ignored "-Wmaybe-uninitialized")
#endif
#include <immintrin.h>
HWY_DIAGNOSTICS(pop)

#include <algorithm>
#include <cstdint>

#include "core/values/dtype.h"

#define DS_BF16_DOTS_BEGIN HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#define DS_BF16_DOTS_END HWY_POP_ATTRIBUTES

DS_BF16_DOTS_BEGIN
namespace ds::kernels::bf16_dots {

// Two numbers that follow each other along a sum; the lower half is the earlier one.
using Pair = uint32_t;

constexpr int64_t kBlock = 64;     // queries and keys of a block: its scores are 16 KiB of fp32
constexpr int64_t kLanes = 16;     // of fp32, and pairs, in a vector
constexpr int64_t kPanel = 32;     // columns of a panel: two vectors of pairs
constexpr int64_t kTileRows = 8;   // 16 sums in registers hide the latency of six
constexpr int64_t kPairRows = 32;  // of a block

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// What of a block product lies on or below the diagonal: everything, or only rows >= columns.
enum class Extent { kWhole, kLower };
enum class TileWrite { kSet, kAdd };

// The first `count` of a vector's lanes: none below 0, all above their number.
HWY_INLINE __mmask16 first_floats(int64_t count) {
  return static_cast<__mmask16>((1U << std::clamp<int64_t>(count, 0, kLanes)) - 1U);
}
HWY_INLINE __mmask32 first_halves(int64_t count) {
  return static_cast<__mmask32>((uint64_t{1} << std::clamp<int64_t>(count, 0, 32)) - 1U);
}

HWY_INLINE __m512 dot(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
}

// c[i, 0..kPanel) (+)= sum over k < depth of a(i, k) b[k, :], for kTileRows rows of pairs a(i, k) =
// a[i * kRowStep + k * kDepthStep].
template <int64_t kRowStep, int64_t kDepthStep>
HWY_INLINE void multiply_tile(const Pair* HWY_RESTRICT a, const Pair* HWY_RESTRICT b, int64_t depth,
                              float* HWY_RESTRICT c, int64_t c_stride, TileWrite write) {
  __m512 sum[kTileRows][2];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kTileRows; ++i) {
    const float* from = c + i * c_stride;
    const bool add = write == TileWrite::kAdd;
    sum[i][0] = add ? _mm512_load_ps(from) : _mm512_setzero_ps();
    sum[i][1] = add ? _mm512_load_ps(from + kLanes) : _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < depth; ++k) {
    const __m512i left = _mm512_load_si512(b);
    const __m512i right = _mm512_load_si512(b + kLanes);
    b += kPanel;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTileRows; ++i) {
      const __m512i x = _mm512_set1_epi32(static_cast<int>(a[i * kRowStep]));
      sum[i][0] = dot(sum[i][0], x, left);
      sum[i][1] = dot(sum[i][1], x, right);
    }
    a += kDepthStep;
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kTileRows; ++i) {
    _mm512_store_ps(c + i * c_stride, sum[i][0]);
    _mm512_store_ps(c + i * c_stride + kLanes, sum[i][1]);
  }
}

// The three products below compute only the first `rows` queries, whole tiles of them.

// scores [kBlock, kBlock] = queries * keys^T over `depth` pairs, both packed by depth. Tiles above
// the diagonal are left alone.
inline void block_scores(const Pair* queries, const Pair* keys, int64_t depth, float* scores,
                         int64_t rows, Extent extent) {
  for (int64_t j = 0; j < kBlock; j += kPanel) {
    for (int64_t i = 0; i < rows; i += kTileRows) {
      if (extent == Extent::kLower && j > i + kTileRows - 1) continue;
      const Pair* of_panel = queries + i / kPanel * kPanel * depth + i % kPanel;
      multiply_tile<1, kPanel>(of_panel, keys + j * depth, depth, scores + i * kBlock + j, kBlock,
                               TileWrite::kSet);
    }
  }
}

// out [kBlock, width] (+)= weights * values, weights [query][pair of keys], values packed by row.
inline void add_weighted(const Pair* weights, const Pair* values, int64_t width, float* out,
                         int64_t rows, Extent extent, TileWrite write) {
  for (int64_t j = 0; j < width; j += kPanel) {
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const int64_t keys = extent == Extent::kLower ? i + kTileRows : kBlock;
      multiply_tile<kPairRows, 1>(weights + i * kPairRows, values + j * kPairRows, keys / 2,
                                  out + i * width + j, width, write);
    }
  }
}

// out [kBlock, width] (+)= weights^T * values: sums over queries, weights [pair of queries][key],
// values packed by row. Queries before a key have no weight.
inline void add_weighted_transposed(const Pair* weights, const Pair* values, int64_t width,
                                    float* out, int64_t rows, Extent extent, TileWrite write) {
  for (int64_t j = 0; j < width; j += kPanel) {
    for (int64_t i = 0; i < kBlock; i += kTileRows) {
      const int64_t first = (extent == Extent::kLower ? i : 0) / 2;
      const int64_t depth = (rows + 1) / 2 - first;
      if (depth <= 0) break;
      multiply_tile<1, kBlock>(weights + first * kBlock + i,
                               values + j * kPairRows + first * kPanel, depth, out + i * width + j,
                               width, write);
    }
  }
}

// Packing: rows of a matrix [kBlock, dim], of which `count` are there, the others zero ------------

// Sixteen rows of sixteen pairs become columns.
HWY_INLINE void transpose(__m512i (&rows)[16]) {
  __m512i by_two[16];
  __m512i by_four[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    by_two[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    by_two[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    by_four[i] = _mm512_unpacklo_epi64(by_two[i], by_two[i + 2]);
    by_four[i + 1] = _mm512_unpackhi_epi64(by_two[i], by_two[i + 2]);
    by_four[i + 2] = _mm512_unpacklo_epi64(by_two[i + 1], by_two[i + 3]);
    by_four[i + 3] = _mm512_unpackhi_epi64(by_two[i + 1], by_two[i + 3]);
  }
  // Now by_four[4 i + c] has, in its 128-bit lane l, column 4 l + c of rows 4 i .. 4 i + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i even0 = _mm512_shuffle_i32x4(by_four[c], by_four[4 + c], 0x88);
    const __m512i even1 = _mm512_shuffle_i32x4(by_four[8 + c], by_four[12 + c], 0x88);
    const __m512i odd0 = _mm512_shuffle_i32x4(by_four[c], by_four[4 + c], 0xdd);
    const __m512i odd1 = _mm512_shuffle_i32x4(by_four[8 + c], by_four[12 + c], 0xdd);
    rows[c] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    rows[4 + c] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    rows[8 + c] = _mm512_shuffle_i32x4(even0, even1, 0xdd);
    rows[12 + c] = _mm512_shuffle_i32x4(odd0, odd1, 0xdd);
  }
}

// For sums over the columns: panels of kPanel rows, panel[k][i] = the pair (2 k, 2 k + 1) of row i.
// Rows lie far apart, where the hardware does not look ahead: the next ones are asked for.
inline void pack_by_depth(const BF16* from, int64_t stride, int64_t count, int64_t dim, Pair* to) {
  const int64_t depth = (dim + 1) / 2;
  for (int64_t row = 0; row < kBlock; row += kLanes) {
    Pair* const panel = to + row / kPanel * kPanel * depth + row % kPanel;
    const BF16* const first = from + row * stride;
    for (int64_t k = 0; k < depth; k += kLanes) {
      const __mmask32 there = first_halves(dim - 2 * k);
      __m512i rows[16];
      if (row + kLanes <= count) {
#pragma GCC unroll 16
        for (int64_t i = 0; i < kLanes; ++i) {
          __builtin_prefetch(first + (kLanes + i) * stride + 2 * k);
          rows[i] = _mm512_maskz_loadu_epi16(there, first + i * stride + 2 * k);
        }
      } else {
#pragma GCC unroll 16
        for (int64_t i = 0; i < kLanes; ++i) {
          rows[i] = row + i < count ? _mm512_maskz_loadu_epi16(there, first + i * stride + 2 * k)
                                    : _mm512_setzero_si512();
        }
      }
      transpose(rows);
      if (k + kLanes <= depth) {
#pragma GCC unroll 16
        for (int64_t i = 0; i < kLanes; ++i) _mm512_store_si512(panel + (k + i) * kPanel, rows[i]);
      } else {
        for (int64_t i = 0; i < depth - k; ++i) {
          _mm512_store_si512(panel + (k + i) * kPanel, rows[i]);
        }
      }
    }
  }
}

// For sums over the rows: panels of kPanel columns, panel[k][j] = rows 2 k and 2 k + 1 of column j.
inline void pack_by_row(const BF16* from, int64_t stride, int64_t count, int64_t dim, Pair* to) {
  constexpr int64_t kAhead = 8;
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (int64_t j = 0; j < dim; j += kPanel) {
    const __mmask32 there = first_halves(dim - j);
    for (int64_t k = 0; k < kPairRows; ++k) {
      const BF16* const row = from + 2 * k * stride + j;
      __builtin_prefetch(row + kAhead * stride);
      __builtin_prefetch(row + (kAhead + 1) * stride);
      // Nothing is read of a row that is not there.
      const __m512i first = _mm512_maskz_loadu_epi16(2 * k < count ? there : 0, row);
      const __m512i second = _mm512_maskz_loadu_epi16(2 * k + 1 < count ? there : 0, row + stride);
      Pair* const out = to + j * kPairRows + k * kPanel;
      _mm512_store_si512(out, _mm512_permutex2var_epi16(first, low, second));
      _mm512_store_si512(out + kLanes, _mm512_permutex2var_epi16(first, high, second));
    }
  }
}

// Rows of scores ----------------------------------------------------------------------------------

// 2^t for t <= 128 to 2 ulp: a polynomial of degree six in what t has beside a whole number; 0 far
// below; NaN stays NaN, as the second operand of MAXPS does.
HWY_INLINE __m512 exp2(__m512 t) {
  t = _mm512_max_ps(_mm512_set1_ps(-200.0F), t);
  const __m512 whole = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(t, whole);
  __m512 p = _mm512_set1_ps(1.5403530e-4F);  // ln 2 ^ 6 / 6!
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3333558e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.6181291e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.5504109e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.4022651e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9314718e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, whole);
}

// The lanes of a vector that are seen: those of `seen` from `first` on.
HWY_INLINE __mmask16 seen_lanes(uint64_t seen, int64_t first) {
  return static_cast<__mmask16>(seen >> first);
}

HWY_INLINE float largest_of(const float* row, uint64_t seen) {
  const __m512 least = _mm512_set1_ps(-__builtin_inff());
  __m512 most = least;
#pragma GCC unroll 4
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    if (seen >> j == 0) break;
    most = _mm512_max_ps(most, _mm512_mask_load_ps(least, seen_lanes(seen, j), row + j));
  }
  return _mm512_reduce_max_ps(most);
}

// Scores of a row that are seen become weights 2^(factor s - offset), the others 0; returns the
// weights' sum in lanes.
HWY_INLINE __m512 weights_of_row(float* row, uint64_t seen, float factor, float offset) {
  __m512 sum = _mm512_setzero_ps();
#pragma GCC unroll 4
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    const __mmask16 inside = seen_lanes(seen, j);
    if (inside == 0) {
      _mm512_store_ps(row + j, _mm512_setzero_ps());
      continue;
    }
    const __m512 s = _mm512_maskz_load_ps(inside, row + j);
    const __m512 t = _mm512_fmsub_ps(s, _mm512_set1_ps(factor), _mm512_set1_ps(offset));
    const __m512 weight = _mm512_maskz_mov_ps(inside, exp2(t));
    _mm512_store_ps(row + j, weight);
    sum = _mm512_add_ps(sum, weight);
  }
  return sum;
}

HWY_INLINE void clear_unseen(float* row, uint64_t seen) {
#pragma GCC unroll 4
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    _mm512_store_ps(row + j, _mm512_maskz_load_ps(seen_lanes(seen, j), row + j));
  }
}

// sums[lane] += p dp of a row.
HWY_INLINE void add_products(const float* p, const float* dp, float* sums) {
  __m512 sum = _mm512_load_ps(sums);
#pragma GCC unroll 4
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    sum = _mm512_fmadd_ps(_mm512_load_ps(p + j), _mm512_load_ps(dp + j), sum);
  }
  _mm512_store_ps(sums, sum);
}

// dp becomes p (dp - delta).
HWY_INLINE void gradient_row(const float* p, float* dp, float delta) {
#pragma GCC unroll 4
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    const __m512 centred = _mm512_sub_ps(_mm512_load_ps(dp + j), _mm512_set1_ps(delta));
    _mm512_store_ps(dp + j, _mm512_mul_ps(_mm512_load_ps(p + j), centred));
  }
}

HWY_INLINE __m512i round_both(__m512 first, __m512 second) {
  return __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(second, first));
}

// A row rounded to bf16, as pairs of keys.
HWY_INLINE void round_row(const float* row, Pair* to) {
#pragma GCC unroll 2
  for (int64_t j = 0; j < kBlock; j += 2 * kLanes) {
    const __m512 first = _mm512_load_ps(row + j);
    _mm512_store_si512(to + j / 2, round_both(first, _mm512_load_ps(row + j + kLanes)));
  }
}

// Two rows rounded to bf16, as pairs of one number of each.
HWY_INLINE void round_two_rows(const float* first, const float* second, Pair* to) {
  const __m512i alternating =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
#pragma GCC unroll 4
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    const __m512i both = round_both(_mm512_load_ps(first + j), _mm512_load_ps(second + j));
    _mm512_store_si512(to + j, _mm512_permutexvar_epi16(alternating, both));
  }
}

HWY_INLINE void scale_row(float factor, float* row, int64_t width) {
  for (int64_t j = 0; j < width; j += kLanes) {
    _mm512_store_ps(row + j, _mm512_mul_ps(_mm512_load_ps(row + j), _mm512_set1_ps(factor)));
  }
}

HWY_INLINE void store_row(const float* from, float factor, BF16* to, int64_t count) {
  for (int64_t j = 0; j < count; j += kLanes) {
    const __m512 scaled = _mm512_mul_ps(_mm512_load_ps(from + j), _mm512_set1_ps(factor));
    _mm256_mask_storeu_epi16(to + j, first_floats(count - j),
                             __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(scaled)));
  }
}

}  // namespace ds::kernels::bf16_dots
DS_BF16_DOTS_END
