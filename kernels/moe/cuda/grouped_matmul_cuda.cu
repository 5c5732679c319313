// Products by expert on CUDA devices, by mma.sync. A kernel makes a list of tiles of rows from the
// offsets, each of one expert; blocks of threads take tiles from it, and columns. Gradients of
// matrices have a block for each 64 x 64 of them, which goes over the rows of the expert.
#include "core/device/dispatch.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/flags.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/moe/cuda/grouped_matmul_cuda.h"
#include "kernels/moe/cuda/grouped_tiles.cuh"
#include "kernels/moe/grouped_matmul_operands.h"

namespace ds::kernels::detail {
namespace {

using cuda::elements;

constexpr int kScanThreads = 256;

// Rows [begin, end) of an expert among those that are there, whatever the offsets say.
struct Segment {
  int64_t begin, end;
};
__device__ inline Segment segment_of(const int32_t* offsets, int64_t expert, int64_t rows,
                                     uint32_t* flags) {
  const int64_t begin = offsets[expert], end = offsets[expert + 1];
  if (begin >= 0 && begin <= end && end <= rows) return {begin, end};
  cuda::set_flag(DeviceFlag::kPlaceOutsideRows, flags);
  return {0, 0};
}

// One row of the list: rows [row, end) of `expert`, at most kGroupedRows of them; -1: none.
struct RowTile {
  int32_t expert, row, end;
};

// One block. Each thread has a piece of the experts.
__global__ void tiles_kernel(int64_t experts, int64_t rows, const int32_t* offsets, int64_t room,
                             RowTile* tiles, uint32_t* flags) {
  DS_SHARED(int64_t, counts, kScanThreads + 1);
  const int64_t piece = (experts + kScanThreads - 1) / kScanThreads;
  const int64_t first = int64_t{threadIdx.x} * piece;
  const int64_t past = first + piece < experts ? first + piece : experts;
  int64_t own = 0;
  for (int64_t e = first; e < past; ++e) {
    const Segment segment = segment_of(offsets, e, rows, flags);
    own += (segment.end - segment.begin + kGroupedRows - 1) / kGroupedRows;
  }
  counts[threadIdx.x + 1] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    counts[0] = 0;
    for (int t = 0; t < kScanThreads; ++t) counts[t + 1] += counts[t];
  }
  __syncthreads();
  int64_t at = counts[threadIdx.x];
  for (int64_t e = first; e < past; ++e) {
    const Segment segment = segment_of(offsets, e, rows, flags);
    for (int64_t row = segment.begin; row < segment.end && at < room; row += kGroupedRows) {
      tiles[at++] = {.expert = static_cast<int32_t>(e),
                     .row = static_cast<int32_t>(row),
                     .end = static_cast<int32_t>(segment.end)};
    }
  }
  for (int64_t i = counts[kScanThreads] + threadIdx.x; i < room; i += kScanThreads) {
    tiles[i] = {.expert = -1, .row = 0, .end = 0};
  }
}

template <class Y>
__global__ void rest_kernel(GroupedProduct p, const int32_t* offsets, Y* out) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t used = offsets[p.experts] < 0 ? 0 : offsets[p.experts];
  for (int64_t i = used * p.columns + thread; i < p.rows * p.columns; i += threads) {
    out[i] = static_cast<Y>(0.0F);
  }
}

template <class T, class Y>
struct Grouped {
  GroupedProduct p;
  int64_t tiles;  // room in the list
  const RowTile* list;
  const T* rows;
  const T* weights;
  Y* out;
  bool packs;
};

template <RightTile kRight, class T, class Y>
__global__ void __launch_bounds__(kGroupedThreads) grouped_kernel(Grouped<T, Y> of) {
  constexpr bool kOut = kRight == RightTile::kColumns;  // the matrix lies [columns, depth]
  constexpr int kRightRows = kOut ? kGroupedColumns : kGroupedDepth;
  constexpr int kRightColumns = kOut ? kGroupedDepth : kGroupedColumns;
  constexpr int kLeftSize = kGroupedRows * GroupedTile<T, kGroupedDepth>::kStride;
  constexpr int kRightSize = kRightRows * GroupedTile<T, kRightColumns>::kStride;
  DS_SHARED(T, left, 2 * kLeftSize);
  DS_SHARED(T, right, 2 * kRightSize);
  const GroupedProduct& p = of.p;
  const int64_t across = (p.columns + kGroupedColumns - 1) / kGroupedColumns;
  for (int64_t item = blockIdx.x; item < of.tiles * across; item += gridDim.x) {
    const RowTile tile = of.list[item / across];
    if (tile.expert < 0) continue;
    const int64_t column = item % across * kGroupedColumns;
    const T* const weights = of.weights + tile.expert * p.depth * p.columns;
    const int64_t rows = tile.end - tile.row, columns = p.columns - column;
    const auto fetch = [&](int i, int stage) {
      const int64_t k = int64_t{i} * kGroupedDepth, depth = p.depth - k;
      fetch_tile<kGroupedRows, kGroupedDepth>(
          TileSource<T>{of.rows, p.depth, tile.row, rows, k, depth, of.packs},
          left + stage * kLeftSize);
      fetch_tile<kRightRows, kRightColumns>(
          kOut ? TileSource<T>{weights, p.depth, column, columns, k, depth, of.packs}
               : TileSource<T>{weights, p.columns, k, depth, column, columns, of.packs},
          right + stage * kRightSize);
      cuda::end_copy_group();
    };
    Sums sums[kGroupedTiles] = {};
    fetch(0, 0);
    cuda::in_two_stages(static_cast<int>((p.depth + kGroupedDepth - 1) / kGroupedDepth), fetch,
                        [&](int, int stage) {
                          add_stage<LeftTile::kRows, kRight>(left + stage * kLeftSize,
                                                             right + stage * kRightSize, sums);
                        });
    write_sums(sums, TileTarget<Y>{.to = of.out + tile.row * p.columns + column,
                                   .stride = p.columns,
                                   .rows = rows,
                                   .columns = columns,
                                   .accumulate = false});
  }
}

template <class T, class Y>
struct GroupedWeights {
  int64_t experts, rows, a_columns, b_columns;
  const int32_t* offsets;
  const T* a;
  const T* b;
  Y* out;
  bool accumulate, packs;
  uint32_t* flags;
};

template <class T, class Y>
__global__ void __launch_bounds__(kGroupedThreads) weights_kernel(GroupedWeights<T, Y> of) {
  constexpr int kSize = kGroupedDepth * GroupedTile<T, kGroupedColumns>::kStride;
  static_assert(kGroupedRows == kGroupedColumns, "both tiles are of one size");
  DS_SHARED(T, left, 2 * kSize);
  DS_SHARED(T, right, 2 * kSize);
  const int64_t down = (of.a_columns + kGroupedRows - 1) / kGroupedRows;
  const int64_t across = (of.b_columns + kGroupedColumns - 1) / kGroupedColumns;
  for (int64_t item = blockIdx.x; item < of.experts * down * across; item += gridDim.x) {
    const int64_t expert = item / (down * across);
    const int64_t row = item / across % down * kGroupedRows;
    const int64_t column = item % across * kGroupedColumns;
    const Segment segment = segment_of(of.offsets, expert, of.rows, of.flags);
    const int64_t rows = of.a_columns - row, columns = of.b_columns - column;
    const auto fetch = [&](int i, int stage) {
      const int64_t k = segment.begin + int64_t{i} * kGroupedDepth, depth = segment.end - k;
      fetch_tile<kGroupedDepth, kGroupedRows>(
          TileSource<T>{of.a, of.a_columns, k, depth, row, rows, of.packs}, left + stage * kSize);
      fetch_tile<kGroupedDepth, kGroupedColumns>(
          TileSource<T>{of.b, of.b_columns, k, depth, column, columns, of.packs},
          right + stage * kSize);
      cuda::end_copy_group();
    };
    Sums sums[kGroupedTiles] = {};
    const int64_t stages = (segment.end - segment.begin + kGroupedDepth - 1) / kGroupedDepth;
    if (stages > 0) fetch(0, 0);
    cuda::in_two_stages(static_cast<int>(stages), fetch, [&](int, int stage) {
      add_stage<LeftTile::kDepth, RightTile::kDepth>(left + stage * kSize, right + stage * kSize,
                                                     sums);
    });
    if (of.accumulate && stages == 0) continue;
    write_sums(sums,
               TileTarget<Y>{.to = of.out + (expert * of.a_columns + row) * of.b_columns + column,
                             .stride = of.b_columns,
                             .rows = rows,
                             .columns = columns,
                             .accumulate = of.accumulate});
  }
}

cuda::LaunchShape shape_for_items(int64_t items) {
  return cuda::shape_for(items * kGroupedThreads, kGroupedThreads);
}

template <class T, class Y>
void launch_grouped(Stream& stream, const GroupedMatmulArgs& args, const Tensor& list,
                    int64_t tiles) {
  constexpr int kPack = cuda::kPackOf<T>;
  const GroupedProduct p = product_of(args);
  const bool transposed = args.transpose_weights == Transpose::kYes;
  Grouped<T, Y> of{.p = p,
                   .tiles = tiles,
                   .list = static_cast<const RowTile*>(list.address()),
                   .rows = elements<const T>(args.rows),
                   .weights = elements<const T>(args.weights),
                   .out = elements<Y>(args.out),
                   .packs = false};
  of.packs = cuda::rows_are_packs<kPack>(p.depth, of.rows, of.weights) &&
             (transposed || p.columns % kPack == 0);
  const int64_t across = (p.columns + kGroupedColumns - 1) / kGroupedColumns;
  cuda::launch("grouped_matmul",
               transposed ? grouped_kernel<RightTile::kColumns, T, Y>
                          : grouped_kernel<RightTile::kDepth, T, Y>,
               shape_for_items(tiles * across), stream, of);
  cuda::launch("grouped_matmul", rest_kernel<Y>, cuda::shape_for(p.rows * p.columns), stream, p,
               elements<const int32_t>(args.offsets), of.out);
}

template <class T, class Y>
void launch_weights(Stream& stream, const GroupedMatmulWeightsArgs& args) {
  constexpr int kPack = cuda::kPackOf<T>;
  GroupedWeights<T, Y> of{.experts = args.offsets.numel() - 1,
                          .rows = args.a.numel() / args.a_columns,
                          .a_columns = args.a_columns,
                          .b_columns = args.b_columns,
                          .offsets = elements<const int32_t>(args.offsets),
                          .a = elements<const T>(args.a),
                          .b = elements<const T>(args.b),
                          .out = elements<Y>(args.out),
                          .accumulate = args.write == Write::kAccumulate,
                          .packs = false,
                          .flags = DeviceFlags(stream).word()};
  of.packs = cuda::rows_are_packs<kPack>(of.a_columns, of.a) &&
             cuda::rows_are_packs<kPack>(of.b_columns, of.b);
  const int64_t down = (of.a_columns + kGroupedRows - 1) / kGroupedRows;
  const int64_t across = (of.b_columns + kGroupedColumns - 1) / kGroupedColumns;
  cuda::launch("grouped_matmul_weights", weights_kernel<T, Y>,
               shape_for_items(of.experts * down * across), stream, of);
}

}  // namespace

void grouped_matmul_cuda(Stream& stream, const GroupedMatmulArgs& args) {
  const GroupedProduct p = product_of(args);
  const int64_t tiles = p.rows / kGroupedRows + p.experts;
  constexpr int64_t kNumbers = sizeof(RowTile) / sizeof(int32_t);
  const Tensor list = Tensor::empty({tiles * kNumbers}, DType::kI32, stream, MemoryTag::kScratch);
  cuda::launch("grouped_matmul", tiles_kernel, {.blocks = 1, .threads = kScanThreads}, stream,
               p.experts, p.rows, elements<const int32_t>(args.offsets), tiles,
               static_cast<RowTile*>(list.address()), DeviceFlags(stream).word());
  on_float(args.rows.dtype(), [&]<class T>() {
    if (args.out.dtype() == DType::kF32) {
      launch_grouped<T, float>(stream, args, list, tiles);
    } else {
      launch_grouped<T, T>(stream, args, list, tiles);
    }
  });
}

void grouped_matmul_weights_cuda(Stream& stream, const GroupedMatmulWeightsArgs& args) {
  on_float(args.a.dtype(), [&]<class T>() {
    if (args.out.dtype() == DType::kF32) {
      launch_weights<T, float>(stream, args);
    } else {
      launch_weights<T, T>(stream, args);
    }
  });
}

}  // namespace ds::kernels::detail
