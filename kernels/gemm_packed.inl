// The packed matrix product for one instruction set: block of c = op(a) op(b) in fp32, whatever the
// storage, after Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008).
// Operands are copied to fp32 panels as they are read; a register tile of kTileRows x 3 vectors runs
// over them. Each element of c is a sum in order of k, in steps of kDepth: neither blocks nor threads
// change its bits.
#if defined(DS_KERNELS_GEMM_PACKED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_KERNELS_GEMM_PACKED_INL
#undef DS_KERNELS_GEMM_PACKED_INL
#else
#define DS_KERNELS_GEMM_PACKED_INL
#endif

#include <algorithm>

#include "kernels/simd.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {

// 24 accumulators of the 32 registers of AVX-512 and NEON; 12 of the 16 of AVX2.
constexpr int64_t kTileRows = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SCALAR ? 4 : 8;
constexpr int kTileVectors = 3;
constexpr int64_t kDepth = 192;  // of a panel of b: kDepth * 48 floats fit the first-level cache

HWY_INLINE int64_t tile_columns() { return kTileVectors * lane_count(); }
HWY_INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// c[i, :] (+)= sum over k of a(i, k) b[k, :]. a(i, k) = a[i * kRowStep + k * kDepthStep].
template <int64_t kRowStep, int64_t kDepthStep>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                              int64_t depth, float* HWY_RESTRICT c, int64_t c_stride, bool add) {
  const Lanes d;
  const int64_t lanes = lane_count();
  F32Vector sum[kTileRows][kTileVectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kTileVectors; ++j) sum[i][j] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const auto b0 = hn::Load(d, b);
    const auto b1 = hn::Load(d, b + lanes);
    const auto b2 = hn::Load(d, b + 2 * lanes);
    b += kTileVectors * lanes;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTileRows; ++i) {
      const auto x = hn::Set(d, a[i * kRowStep]);
      sum[i][0] = hn::MulAdd(x, b0, sum[i][0]);
      sum[i][1] = hn::MulAdd(x, b1, sum[i][1]);
      sum[i][2] = hn::MulAdd(x, b2, sum[i][2]);
    }
    a += kDepthStep;
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kTileVectors; ++j) {
      float* to = c + i * c_stride + j * lanes;
      hn::StoreU(add ? hn::Add(hn::LoadU(d, to), sum[i][j]) : sum[i][j], d, to);
    }
  }
}

// Rows of `from` [count, depth] to panels of kTileRows rows, each row kDepth apart; missing rows are 0.
template <class T>
void pack_rows(const T* from, int64_t stride, int64_t count, int64_t depth, float* to) {
  const Lanes d;
  for (int64_t row = 0; row < round_up(count, kTileRows); ++row) {
    float* out = to + row * kDepth;
    if (row >= count) {
      std::fill(out, out + depth, 0.0F);
      continue;
    }
    for (int64_t k = 0; k < depth; k += lane_count()) {
      const int64_t lanes = at_most_lanes(depth - k);
      put(get(d, from + row * stride + k, lanes), d, out + k, lanes);
    }
  }
}

// Columns of `from` [depth, count] to panels of kTileRows columns: panel[k][i] = from(k, i).
template <class T>
void pack_columns(const T* from, int64_t stride, int64_t count, int64_t depth, float* to) {
  const hn::CappedTag<float, static_cast<size_t>(kTileRows)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = count / kTileRows * kTileRows;
  for (int64_t k = 0; k < depth; ++k) {
    const T* row = from + k * stride;
    for (int64_t i = 0; i < whole; i += kTileRows) {
      float* out = to + i * kDepth + k * kTileRows;
      for (int64_t r = 0; r < kTileRows; r += lanes) hn::StoreU(load(d, row + i + r), d, out + r);
    }
    if (whole == count) continue;
    float* out = to + whole * kDepth + k * kTileRows;
    for (int64_t r = 0; r < kTileRows; ++r) {
      out[r] = whole + r < count ? static_cast<float>(row[whole + r]) : 0.0F;
    }
  }
}

// Panels of b: panel p holds columns [p w, (p + 1) w), w = tile_columns(): panel[k][j] = b(k, p w + j).
template <class T>
void pack_b(const T* from, int64_t stride, int64_t depth, int64_t count, float* to) {
  const Lanes d;
  const int64_t width = tile_columns();
  for (int64_t k = 0; k < depth; ++k) {
    const T* row = from + k * stride;
    for (int64_t first = 0; first < count; first += width) {
      float* out = to + first * kDepth + k * width;
      for (int64_t j = 0; j < width; j += lane_count()) {
        const int64_t left = count - first - j;
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

// out[k][0..lanes) = from(0..lanes, k), k < 4: vectors r = 0..3 hold rows r, r + 4, r + 8, ... a block
// each, so that four-by-four transposes inside the blocks leave whole columns.
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
template <class T>
void pack_b_transposed(const T* from, int64_t stride, int64_t depth, int64_t count, float* to) {
  const int64_t width = tile_columns();
  const int64_t lanes = lane_count();
  for (int64_t column = 0; column < round_up(count, width); column += lanes) {
    float* out = to + column / width * width * kDepth + column % width;
    const T* rows = from + column * stride;
    const int64_t known = count - column;
    int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
    if (known >= lanes) {
      for (; k + 4 <= depth; k += 4) transpose_four(rows + k, stride, out + k * width, width);
    }
#endif
    for (; k < depth; ++k) {
      for (int64_t j = 0; j < lanes; ++j) {
        out[k * width + j] = j < known ? static_cast<float>(rows[j * stride + k]) : 0.0F;
      }
    }
  }
}

// Where the panels and the fp32 block of one thread lie.
struct GemmPanels {
  float* a;     // [rows rounded up to kTileRows, kDepth]
  float* b;     // [columns rounded up to tile_columns(), kDepth]
  float* edge;  // one tile
  float* c;     // [rows, columns]: exactly these elements are touched
  int64_t c_stride;
};

// A tile that reaches over the edge of c: computed beside it, its inner part copied.
template <int64_t kRowStep, int64_t kDepthStep>
HWY_NOINLINE void multiply_edge(const GemmPanels& p, int64_t i, int64_t j, int64_t rows,
                                int64_t columns, int64_t depth, bool add) {
  const Lanes d;
  multiply_tile<kRowStep, kDepthStep>(p.a + i * kDepth, p.b + j * kDepth, depth, p.edge,
                                      tile_columns(), false);
  for (int64_t r = 0; r < std::min(rows - i, kTileRows); ++r) {
    const float* from = p.edge + r * tile_columns();
    float* to = p.c + (i + r) * p.c_stride + j;
    for (int64_t v = 0; v < std::min(columns - j, tile_columns()); v += lane_count()) {
      const int64_t count = at_most_lanes(columns - j - v);
      const auto sum = load(d, from + v);
      put(add ? hn::Add(get(d, to + v, count), sum) : sum, d, to + v, count);
    }
  }
}

// c (+)= a b over panels of `depth`.
template <int64_t kRowStep, int64_t kDepthStep>
void multiply_panels(const GemmPanels& p, int64_t rows, int64_t columns, int64_t depth, bool add) {
  for (int64_t j = 0; j < columns; j += tile_columns()) {
    const bool whole = j + tile_columns() <= columns;
    for (int64_t i = 0; i < rows; i += kTileRows) {
      if (HWY_LIKELY(whole && i + kTileRows <= rows)) {
        multiply_tile<kRowStep, kDepthStep>(p.a + i * kDepth, p.b + j * kDepth, depth,
                                            p.c + i * p.c_stride + j, p.c_stride, add);
      } else {
        multiply_edge<kRowStep, kDepthStep>(p, i, j, rows, columns, depth, add);
      }
    }
  }
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
