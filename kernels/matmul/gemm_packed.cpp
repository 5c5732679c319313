// Our matrix product; see gemm.h and gemm_panels.inl. This file cuts c into blocks, hands them to
// the threads and finishes each block (bias, activation, rounding, accumulation) while it is in the
// cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/gemm_packed.cpp"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd.h"
#include "kernels/elementwise/spans.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/gemm_panels.inl"

#ifndef DS_KERNELS_GEMM_BLOCKS
#define DS_KERNELS_GEMM_BLOCKS
namespace ds::kernels::detail {
// The largest block of c: its fp32 copy, the panels of a and those of b fill half of a 2 MiB
// second-level cache.
inline constexpr int64_t kBlockRows = 256;
inline constexpr int64_t kBlockColumns = 384;
}  // namespace ds::kernels::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

template <class T>
void pack_operands(const detail::Gemm& g, const detail::GemmBlock& block, int64_t k, int64_t depth,
                   const GemmPanels& p) {
  const T* a = static_cast<const T*>(g.a.data);
  if (g.a.transpose == Transpose::kNo) {
    pack_rows(a + block.row * g.a.row_stride + k, g.a.row_stride, block.rows, depth, kDepth, p.a);
  } else {
    pack_columns(a + k * g.a.row_stride + block.row, g.a.row_stride, block.rows, depth, kDepth,
                 p.a);
  }
  const T* b = static_cast<const T*>(g.b.data);
  if (g.b.transpose == Transpose::kNo) {
    pack_b<kTileVectors>(b + k * g.b.row_stride + block.column, g.b.row_stride, depth,
                         block.columns, kDepth, p.b);
  } else {
    pack_b_transposed<kTileVectors>(b + block.column * g.b.row_stride + k, g.b.row_stride, depth,
                                    block.columns, kDepth, p.b);
  }
}

}  // namespace

// c [block.rows, block.columns] = (or +=) the block of op(a) op(b).
void multiply_block(const detail::Gemm& g, const detail::GemmBlock& block, Write write, float* c,
                    int64_t c_stride, float* workspace) {
  const int64_t a_floats = round_up(block.rows, kTileRows) * kDepth;
  const int64_t b_floats = round_up(block.columns, tile_columns()) * kDepth;
  const GemmPanels p{.a = workspace,
                     .b = workspace + a_floats,
                     .edge = workspace + a_floats + b_floats,
                     .c = c,
                     .c_stride = c_stride};
  const int64_t steps = (g.k + kDepth - 1) / kDepth;
  const int64_t depth = (g.k + steps - 1) / steps;
  for (int64_t k = 0; k < g.k; k += depth) {
    const int64_t part = std::min(depth, g.k - k);
    const TileWrite to_c = k > 0 || write == Write::kAccumulate ? TileWrite::kAdd : TileWrite::kSet;
    on_float(g.a.dtype, [&]<class T>() { pack_operands<T>(g, block, k, part, p); });
    if (g.a.transpose == Transpose::kNo) {
      multiply_panels<kDepth, 1>(p, block.rows, block.columns, part, to_c);
    } else {
      multiply_panels<1, kTileRows>(p, block.rows, block.columns, part, to_c);
    }
  }
}

size_t workspace_floats(int64_t rows, int64_t columns) {
  const int64_t panels = round_up(rows, kTileRows) + round_up(columns, tile_columns());
  return to_size(panels * kDepth + kTileRows * tile_columns());
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels::detail {
namespace {

DS_SIMD_EXPORT(multiply_block);
DS_SIMD_EXPORT(workspace_floats);

struct Workspaces {
  std::vector<Scratch> threads;
};

std::byte* at(const void* data, int64_t element, DType dtype) {
  return static_cast<std::byte*>(const_cast<void*>(data)) +
         element * static_cast<int64_t>(size_of(dtype));
}

// fp32 results are summed up where they belong; others in fp32 behind the panels, and rounded once.
void compute_block(const Gemm& g, const GemmBlock& block, float* workspace, size_t panel_floats) {
  if (g.c.dtype == DType::kF32) {
    auto* c = reinterpret_cast<float*>(
        at(g.c.data, block.row * g.c.row_stride + block.column, DType::kF32));
    DS_SIMD(multiply_block)(g, block, g.write, c, g.c.row_stride, workspace);
    const bool done =
        g.bias == nullptr && g.activation == Activation::kNone && g.pre_activation == nullptr;
    if (!done) finish_block(g, block, c, g.c.row_stride);
    return;
  }
  float* values = workspace + panel_floats;
  DS_SIMD(multiply_block)
  (g, block, Write::kOverwrite, values, block.columns, workspace);
  finish_block(g, block, values, block.columns);
}

struct Grid {
  int64_t rows, columns;              // of a block
  int64_t block_rows, block_columns;  // of the grid
  int64_t size() const { return block_rows * block_columns; }
};

// Blocks of at most kBlockRows x kBlockColumns; smaller ones where that gives every thread its
// share.
Grid grid_of(const Gemm& g, int threads) {
  constexpr int64_t kUnit = 48;  // columns: a whole number of tiles for every vector length
  const auto parts = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  const int64_t down = parts(g.m, kBlockRows);
  const int64_t units = parts(g.n, kUnit);
  int64_t across = parts(g.n, kBlockColumns);
  const int64_t many = int64_t{4} * threads;
  while (across < units && down * across % threads != 0 && down * across < many) ++across;
  const int64_t rows = parts(parts(g.m, down), 8) * 8;
  const int64_t columns = parts(units, across) * kUnit;
  return {rows, columns, parts(g.m, rows), parts(g.n, columns)};
}

}  // namespace

void finish_block(const Gemm& g, const GemmBlock& block, float* values, int64_t stride) {
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = values + i * stride;
    void* c = at(g.c.data, (block.row + i) * g.c.row_stride + block.column, g.c.dtype);
    if (g.bias != nullptr) {
      accumulate_span(at(g.bias, block.column, g.bias_dtype), g.bias_dtype, row, DType::kF32,
                      block.columns);
    }
    if (g.pre_activation != nullptr) {
      cast_span(row, DType::kF32,
                at(g.pre_activation, (block.row + i) * g.n + block.column, g.c.dtype), g.c.dtype,
                block.columns);
    }
    if (g.activation != Activation::kNone) {
      activation_span(g.activation, row, row, DType::kF32, block.columns);
    }
    if (row == c) continue;
    const auto write = g.write == Write::kOverwrite ? cast_span : accumulate_span;
    write(row, DType::kF32, c, g.c.dtype, block.columns);
  }
}

void gemm_packed(Stream& stream, const Gemm& g) {
  if (g.m == 0 || g.n == 0) return;
  auto& workspaces = stream.state<Workspaces>().threads;
  workspaces.resize(to_size(stream.pool().threads()));
  const Grid grid = grid_of(g, stream.pool().threads());
  const size_t panels = DS_SIMD(workspace_floats)(grid.rows, grid.columns);
  const auto result = g.c.dtype == DType::kF32 ? 0 : to_size(grid.rows * grid.columns);
  std::atomic<int64_t> next{0};
  const auto work = [&](int index) {
    float* workspace = nth(workspaces, index).reserve(panels + result);
    for (int64_t i = next.fetch_add(1); i < grid.size(); i = next.fetch_add(1)) {
      const int64_t row = i % grid.block_rows * grid.rows;
      const int64_t column = i / grid.block_rows * grid.columns;
      const GemmBlock block{row, std::min(grid.rows, g.m - row), column,
                            std::min(grid.columns, g.n - column)};
      compute_block(g, block, workspace, panels);
    }
  };
  if (grid.size() == 1) {
    work(0);
  } else {
    stream.pool().for_each_thread(work);
  }
}

}  // namespace ds::kernels::detail
#endif  // HWY_ONCE
