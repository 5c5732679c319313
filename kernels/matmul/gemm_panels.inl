// The packed matrix product for one instruction set: a block of c = op(a) op(b) in fp32, whatever
// the storage. Each element of c is a sum in order of k, in steps of kDepth: neither blocks nor
// threads change its bits.
#if defined(DS_KERNELS_GEMM_PANELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_KERNELS_GEMM_PANELS_INL
#undef DS_KERNELS_GEMM_PANELS_INL
#else
#define DS_KERNELS_GEMM_PANELS_INL
#endif

#include <algorithm>

#include "kernels/cpu/tile.inl"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {

constexpr int kTileVectors = 3;
constexpr int64_t kDepth = 256;  // of a panel of b: kDepth * 48 floats are a first-level cache

HWY_INLINE int64_t tile_columns() { return kTileVectors * lane_count(); }

// This says where the panels and the fp32 block of one thread lie.
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
                                int64_t columns, int64_t depth, TileWrite write) {
  const Lanes d;
  multiply_tile<kTileVectors, kRowStep, kDepthStep>(p.a + i * kDepth, p.b + j * kDepth, depth,
                                                    p.edge, tile_columns(), TileWrite::kSet);
  for (int64_t r = 0; r < std::min(rows - i, kTileRows); ++r) {
    const float* from = p.edge + r * tile_columns();
    float* to = p.c + (i + r) * p.c_stride + j;
    for (int64_t v = 0; v < std::min(columns - j, tile_columns()); v += lane_count()) {
      const int64_t count = at_most_lanes(columns - j - v);
      const auto sum = load(d, from + v);
      put(write == TileWrite::kAdd ? hn::Add(get(d, to + v, count), sum) : sum, d, to + v, count);
    }
  }
}

// c (+)= a b over panels of `depth`.
template <int64_t kRowStep, int64_t kDepthStep>
void multiply_panels(const GemmPanels& p, int64_t rows, int64_t columns, int64_t depth,
                     TileWrite write) {
  for (int64_t j = 0; j < columns; j += tile_columns()) {
    const bool whole = j + tile_columns() <= columns;
    for (int64_t i = 0; i < rows; i += kTileRows) {
      if (HWY_LIKELY(whole && i + kTileRows <= rows)) {
        multiply_tile<kTileVectors, kRowStep, kDepthStep>(
            p.a + i * kDepth, p.b + j * kDepth, depth, p.c + i * p.c_stride + j, p.c_stride, write);
      } else {
        multiply_edge<kRowStep, kDepthStep>(p, i, j, rows, columns, depth, write);
      }
    }
  }
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
