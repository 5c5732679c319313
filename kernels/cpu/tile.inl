// The register tile that matrix products and attention are made of, and the fp32 panels it runs
// over: operands are copied to panels as they are read, whatever their storage, after Goto and van
// de Geijn
// ("Anatomy of high-performance matrix multiplication", 2008). Sums run in order of depth.
#if defined(DS_KERNELS_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_KERNELS_TILE_INL
#undef DS_KERNELS_TILE_INL
#else
#define DS_KERNELS_TILE_INL
#endif

#include <algorithm>

#include "core/values/index.h"
#include "kernels/cpu/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {

// With three vectors across: 24 accumulators of the 32 registers of AVX-512 and NEON, 12 of 16 of
// AVX2.
constexpr int64_t kTileRows = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SCALAR ? 4 : 8;
constexpr int64_t kAheadRows = 4;  // packing asks for lines this many rows ahead

HWY_INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

enum class TileWrite { kSet, kAdd };

// c[i, 0..kVectors vectors) (+)= sum over k < depth of a(i, k) b[k, :], for kTileRows rows, with
// a(i, k) = a[i * kRowStep + k * kDepthStep].
template <int kVectors, int64_t kRowStep, int64_t kDepthStep>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                              int64_t depth, float* HWY_RESTRICT c, int64_t c_stride,
                              TileWrite write) {
  const Lanes d;
  const int64_t lanes = lane_count();
  F32Vector sum[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      __builtin_prefetch(c + i * c_stride + j * lanes, 1);
      sum[i][j] = hn::Zero(d);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    F32Vector row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) row[j] = hn::Load(d, b + j * lanes);
    b += kVectors * lanes;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTileRows; ++i) {
      const auto x = hn::Set(d, a[i * kRowStep]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(x, row[j], sum[i][j]);
    }
    a += kDepthStep;
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * c_stride + j * lanes;
      const bool add = write == TileWrite::kAdd;
      hn::StoreU(add ? hn::Add(hn::LoadU(d, to), sum[i][j]) : sum[i][j], d, to);
    }
  }
}

// Every packing function reserves `reserved` >= depth rows per panel and fills missing rows or
// columns with zeros.

// Rows of `from` [count, depth], each `reserved` apart: a(i, k) with steps (reserved, 1).
template <class T>
void pack_rows(const T* from, int64_t stride, int64_t count, int64_t depth, int64_t reserved,
               float* to) {
  const Lanes d;
  for (int64_t row = 0; row < round_up(count, kTileRows); ++row) {
    float* out = to + row * reserved;
    if (row >= count) {
      std::fill(out, out + depth, 0.0F);
      continue;
    }
    for (int64_t k = 0; k < depth; k += lane_count()) {
      const int64_t lanes = at_most_lanes(depth - k);
      __builtin_prefetch(from + (row + kAheadRows) * stride + k);
      put(get(d, from + row * stride + k, lanes), d, out + k, lanes);
    }
  }
}

// Columns of `from` [depth, count] in panels of kTileRows: panel[k][i] = from(k, i), steps (1,
// kTileRows).
template <class T>
void pack_columns(const T* from, int64_t stride, int64_t count, int64_t depth, int64_t reserved,
                  float* to) {
  const hn::CappedTag<float, to_size(kTileRows)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = count / kTileRows * kTileRows;
  for (int64_t k = 0; k < depth; ++k) {
    const T* row = from + k * stride;
    for (int64_t i = 0; i < whole; i += kTileRows) {
      float* out = to + i * reserved + k * kTileRows;
      for (int64_t r = 0; r < kTileRows; r += lanes) hn::StoreU(load(d, row + i + r), d, out + r);
    }
    if (whole == count) continue;
    float* out = to + whole * reserved + k * kTileRows;
    for (int64_t r = 0; r < kTileRows; ++r) {
      out[r] = whole + r < count ? static_cast<float>(row[whole + r]) : 0.0F;
    }
  }
}

// Panels of b [depth, count]: panel p holds columns [p w, (p + 1) w), w being kVectors vectors:
// panel[k][j] = b(k, p w + j).
template <int kVectors, class T>
void pack_b(const T* from, int64_t stride, int64_t depth, int64_t count, int64_t reserved,
            float* to) {
  const Lanes d;
  const int64_t width = kVectors * lane_count();
  for (int64_t k = 0; k < depth; ++k) {
    const T* row = from + k * stride;
    for (int64_t first = 0; first < count; first += width) {
      float* out = to + first * reserved + k * width;
      for (int64_t j = 0; j < width; j += lane_count()) {
        const int64_t left = count - first - j;
        __builtin_prefetch(row + kAheadRows * stride + first + j);
        const auto v = left <= 0 ? hn::Zero(d) : get(d, row + first + j, at_most_lanes(left));
        hn::Store(v, d, out + j);
      }
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// One 128-bit block of four floats from each of lane_count() / 4 rows.
template <class T>
HWY_INLINE F32Vector load_blocks(const T* from, int64_t stride) {
  const hn::CappedTag<float, 4> d4;
  const Lanes d;
  const auto row = [&](int64_t i) HWY_ATTR { return load(d4, from + 4 * i * stride); };
#if HWY_TARGET == HWY_AVX3
  const hn::Half<Lanes> d8;
  return hn::Combine(d, hn::Combine(d8, row(3), row(2)), hn::Combine(d8, row(1), row(0)));
#elif HWY_TARGET == HWY_AVX2
  return hn::Combine(d, row(1), row(0));
#else
  (void)d;
  return row(0);
#endif
}

// out[k][0..lanes) = from(0..lanes, k), k < 4: vectors r = 0..3 hold rows r, r + 4, r + 8, ... a
// block each, so that four-by-four transposes inside the blocks leave whole columns.
template <class T>
HWY_INLINE void transpose_four(const T* from, int64_t stride, float* out, int64_t out_stride) {
  const Lanes d;
  const hn::Repartition<double, Lanes> dd;
  const auto r0 = load_blocks(from, stride);
  const auto r1 = load_blocks(from + stride, stride);
  const auto r2 = load_blocks(from + 2 * stride, stride);
  const auto r3 = load_blocks(from + 3 * stride, stride);
  const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, out);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, out + out_stride);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, out + 2 * out_stride);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, out + 3 * out_stride);
}
#endif

// As pack_b, of a b that is stored transposed: from [count, depth].
template <int kVectors, class T>
void pack_b_transposed(const T* from, int64_t stride, int64_t depth, int64_t count,
                       int64_t reserved, float* to) {
  const int64_t width = kVectors * lane_count();
  const int64_t lanes = lane_count();
  for (int64_t column = 0; column < round_up(count, width); column += lanes) {
    float* out = to + column / width * width * reserved + column % width;
    const T* rows = from + column * stride;
    const int64_t known = count - column;
    int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
    if (known >= lanes) {
      for (; k + 4 <= depth; k += 4) {
        if (k % 16 == 0) {
          for (int64_t j = 0; j < lanes; ++j) {
            __builtin_prefetch(rows + (lanes + j) * stride + k);
          }
        }
        transpose_four(rows + k, stride, out + k * width, width);
      }
    }
#endif
    for (; k < depth; ++k) {
      for (int64_t j = 0; j < lanes; ++j) {
        out[k * width + j] = j < known ? static_cast<float>(rows[j * stride + k]) : 0.0F;
      }
    }
  }
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
