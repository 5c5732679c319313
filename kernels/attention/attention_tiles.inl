// Blocks of attention for one instruction set, on fp32 panels (kernels/cpu/tile.inl): scores
// of kBlock queries against kBlock keys at a time, never more (Dao, arXiv 2307.08691). Work above
// the diagonal is skipped tile by tile. One head at a time runs on one thread, in a fixed order.
#if defined(DS_KERNELS_ATTENTION_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_KERNELS_ATTENTION_TILES_INL
#undef DS_KERNELS_ATTENTION_TILES_INL
#else
#define DS_KERNELS_ATTENTION_TILES_INL
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/values/index.h"
#include "kernels/attention/attention_mask.h"
#include "kernels/cpu/tile.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {

constexpr int64_t kBlock =
    detail::kTileKeys;      // queries and keys of a block: its scores are 16 KiB of fp32
constexpr int kAcross = 2;  // vectors of a tile, so that head sizes of 64 and 128 fill tiles

HWY_INLINE int64_t across() { return kAcross * lane_count(); }

// What of a block product lies on or below the diagonal: everything, or only rows >= columns.
enum class Extent { kWhole, kLower };

// What the tiles of a block product have to hold.
HWY_INLINE Extent extent_of(const detail::SeenKeys& seen, int64_t key, int64_t block) {
  return seen.right == 0 && seen.shift() == 0 && key == block ? Extent::kLower : Extent::kWhole;
}

// scores [kBlock, kBlock] = rows * columns^T over `depth`: `rows` in panels of kTileRows columns,
// `columns` in panels of across(). Tiles above the diagonal are left alone.
HWY_INLINE void block_scores(const float* rows, const float* columns, int64_t depth, float* scores,
                             Extent extent) {
  for (int64_t j = 0; j < kBlock; j += across()) {
    for (int64_t i = 0; i < kBlock; i += kTileRows) {
      if (extent == Extent::kLower && j > i + kTileRows - 1) continue;
      multiply_tile<kAcross, 1, kTileRows>(rows + i * depth, columns + j * depth, depth,
                                           scores + i * kBlock + j, kBlock, TileWrite::kSet);
    }
  }
}

// out [kBlock, width] += weights * values, weights [query, key]; values in panels of kBlock keys.
HWY_INLINE void add_weighted(const float* weights, const float* values, int64_t width, float* out,
                             int64_t out_stride, Extent extent) {
  for (int64_t j = 0; j < width; j += across()) {
    for (int64_t i = 0; i < kBlock; i += kTileRows) {
      const int64_t keys = extent == Extent::kLower ? i + kTileRows : kBlock;
      multiply_tile<kAcross, kBlock, 1>(weights + i * kBlock, values + j * kBlock, keys,
                                        out + i * out_stride + j, out_stride, TileWrite::kAdd);
    }
  }
}

// out [kBlock, width] += weights^T * values: sums over queries; those before a key have no weight.
HWY_INLINE void add_weighted_transposed(const float* weights, const float* values, int64_t width,
                                        float* out, int64_t out_stride, Extent extent) {
  for (int64_t j = 0; j < width; j += across()) {
    for (int64_t i = 0; i < kBlock; i += kTileRows) {
      const int64_t first = extent == Extent::kLower ? i : 0;
      multiply_tile<kAcross, 1, kBlock>(weights + first * kBlock + i,
                                        values + j * kBlock + first * across(), kBlock - first,
                                        out + i * out_stride + j, out_stride, TileWrite::kAdd);
    }
  }
}

// The lanes of a vector whose keys are seen: those of `bits` from `first` on.
HWY_INLINE auto seen_lanes(Lanes d, uint64_t bits, int64_t first) {
  const uint64_t here = bits >> first;
  uint8_t bytes[sizeof(here)];
  std::memcpy(bytes, &here, sizeof(here));
  return hn::LoadMaskBits(d, bytes);
}

// Online softmax of one row of scores, of which `seen` are seen: turns them into weights
// e^(scale s - new maximum), the others into 0, and returns the factor by which earlier sums of the
// row shrink.
HWY_INLINE float online_softmax(float* scores, uint64_t seen, float scale, float* most,
                                float* total) {
  const Lanes d;
  if (seen == 0) {
    std::fill(scores, scores + kBlock, 0.0F);
    return 1;
  }
  float best = *most;
  auto top = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t j = 0; j < kBlock; j += lane_count()) {
    const auto s =
        hn::IfThenElse(seen_lanes(d, seen, j), hn::Mul(hn::Load(d, scores + j), hn::Set(d, scale)),
                       hn::Set(d, -std::numeric_limits<float>::infinity()));
    hn::Store(s, d, scores + j);
    top = hn::Max(top, s);
  }
  best = std::max(best, max_lanes(d, top));
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < kBlock; j += lane_count()) {
    const auto weight = exp(d, hn::Sub(hn::Load(d, scores + j), hn::Set(d, best)));
    hn::Store(weight, d, scores + j);
    sum = hn::Add(sum, weight);
  }
  const float shrink = std::exp(*most - best);
  *total = *total * shrink + sum_lanes(d, sum);
  *most = best;
  return shrink;
}

// How scores become what is masked: times a scale, or capped to c tanh(scale s / c) as well.
struct ScoreRule {
  float scale;
  float softcap;  // 0: none

  // Scores are multiplied by this where they are taken.
  float factor() const { return softcap > 0 ? 1.0F : scale; }
  // Caps a block of scores, and keeps in `slopes`, if any, what their gradients are multiplied by.
  void cap(float* scores, float* slopes) const {
    if (softcap == 0) return;
    const Lanes d;
    for (int64_t j = 0; j < kBlock * kBlock; j += lane_count()) {
      const auto t = tanh(d, hn::Mul(hn::Load(d, scores + j), hn::Set(d, scale / softcap)));
      hn::Store(hn::Mul(t, hn::Set(d, softcap)), d, scores + j);
      if (slopes == nullptr) continue;
      const auto slope = hn::NegMulAdd(t, t, hn::Set(d, 1.0F));
      hn::Store(hn::Mul(slope, hn::Set(d, scale)), d, slopes + j);
    }
  }
  // Gradients of what was capped become those of the products of queries and keys.
  void uncap(const float* slopes, float* gradients) const {
    if (softcap == 0) return;
    const Lanes d;
    for (int64_t j = 0; j < kBlock * kBlock; j += lane_count()) {
      hn::Store(hn::Mul(hn::Load(d, gradients + j), hn::Load(d, slopes + j)), d, gradients + j);
    }
  }
};

// Keys and values of one key-value head as panels, T rounded up to kBlock, zeros beyond T.
struct HeadPanels {
  int64_t length, blocks, dim, width;  // width: dim rounded up to across()
  int64_t block_floats() const { return kBlock * width; }
};

HWY_INLINE HeadPanels head_panels(int64_t length, int64_t dim) {
  return {length, (length + kBlock - 1) / kBlock, dim, round_up(dim, across())};
}

HWY_INLINE int64_t rows_in(const HeadPanels& h, int64_t block) {
  return std::min(kBlock, h.length - block * kBlock);
}

// Rows [block] of a matrix as a right operand: `by_depth` for products over the head dimension (its
// transpose), `by_row` for products over the rows.
template <class T>
HWY_INLINE void pack_by_depth(const HeadPanels& h, const T* from, int64_t stride, int64_t block,
                              float* to) {
  std::fill(to, to + kBlock * h.dim, 0.0F);
  pack_b_transposed<kAcross>(from + block * kBlock * stride, stride, h.dim, rows_in(h, block),
                             h.dim, to);
}
template <class T>
HWY_INLINE void pack_by_row(const HeadPanels& h, const T* from, int64_t stride, int64_t block,
                            float* to) {
  std::fill(to, to + h.block_floats(), 0.0F);
  pack_b<kAcross>(from + block * kBlock * stride, stride, rows_in(h, block), h.dim, kBlock, to);
}

// Rows [block] as a left operand over the head dimension: panel[k][i], kTileRows rows each.
template <class T>
HWY_INLINE void pack_left(const HeadPanels& h, const T* from, int64_t stride, int64_t block,
                          float* to) {
  const int64_t rows = rows_in(h, block);
  for (int64_t i = 0; i < kBlock; ++i) {
    const T* row = from + (block * kBlock + i) * stride;
    float* out = to + i / kTileRows * kTileRows * h.dim + i % kTileRows;
    for (int64_t k = 0; k < h.dim; ++k) {
      out[k * kTileRows] = i < rows ? static_cast<float>(row[k]) : 0.0F;
    }
  }
}

template <class T>
HWY_INLINE void store_row(const float* from, float factor, T* to, int64_t count) {
  const Lanes d;
  for (int64_t i = 0; i < count; i += lane_count()) {
    const int64_t lanes = at_most_lanes(count - i);
    put(hn::Mul(get(d, from + i, lanes), hn::Set(d, factor)), d, to + i, lanes);
  }
}

HWY_INLINE void scale_row(float factor, float* row, int64_t count) {
  const Lanes d;
  for (int64_t i = 0; i < count; i += lane_count()) {
    hn::Store(hn::Mul(hn::Load(d, row + i), hn::Set(d, factor)), d, row + i);
  }
}

// Scores of a row become weights e^(scale s - lse), those that are not seen 0; their products too.
HWY_INLINE void softmax_row_of(float* scores, float* products, uint64_t seen, float scale,
                               float lse) {
  const Lanes d;
  for (int64_t j = 0; j < kBlock; j += lane_count()) {
    const auto inside = seen_lanes(d, seen, j);
    const auto s = hn::MulSub(hn::Load(d, scores + j), hn::Set(d, scale), hn::Set(d, lse));
    hn::Store(hn::IfThenElseZero(inside, exp(d, s)), d, scores + j);
    hn::Store(hn::IfThenElseZero(inside, hn::Load(d, products + j)), d, products + j);
  }
}

struct RowSums {
  double weighted = 0, total = 0;
};

// Adds sum(p dp) and sum(p) of a row, in fp64.
HWY_INLINE void add_row_sums(const float* p, const float* dp, RowSums& sums) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, hn::ScalableTag<double>> dh;
  auto weighted = hn::Zero(dd);
  auto total = hn::Zero(dd);
  for (int64_t j = 0; j < kBlock; j += static_cast<int64_t>(hn::Lanes(dd))) {
    const auto weight = hn::PromoteTo(dd, hn::Load(dh, p + j));
    weighted = hn::MulAdd(weight, hn::PromoteTo(dd, hn::Load(dh, dp + j)), weighted);
    total = hn::Add(total, weight);
  }
  sums.weighted += hn::GetLane(hn::SumOfLanes(dd, weighted));
  sums.total += hn::GetLane(hn::SumOfLanes(dd, total));
}

// dp becomes scale p (dp - delta).
HWY_INLINE void gradient_row(const float* p, float* dp, float scale, float delta) {
  const Lanes d;
  for (int64_t j = 0; j < kBlock; j += lane_count()) {
    const auto centred = hn::Sub(hn::Load(d, dp + j), hn::Set(d, delta));
    hn::Store(hn::Mul(hn::Mul(hn::Load(d, p + j), centred), hn::Set(d, scale)), d, dp + j);
  }
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
