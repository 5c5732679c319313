// Tiles of products by expert: what a block of threads reads of its factors, stage by stage, and
// the sums of its warps. A block makes 64 x 64 results, 16 rows each warp.
#pragma once

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/pack.cuh"

namespace ds::kernels::detail {

using cuda::Mma;
using cuda::Sums;

inline constexpr int kGroupedWarps = 4;
inline constexpr int kGroupedThreads = kGroupedWarps * cuda::kWarp;
inline constexpr int kGroupedRows = kGroupedWarps * cuda::kTileRows;
inline constexpr int kGroupedColumns = 64;
inline constexpr int kGroupedDepth = 32;  // of a stage
inline constexpr int kGroupedTiles = kGroupedColumns / cuda::kTileColumns;

// Rows of a tile begin 16 bytes further in the banks than those before, so that eight of them are
// read at once.
template <class T, int kColumns>
struct GroupedTile {
  static constexpr int kStride = kColumns + cuda::kPackOf<T>;
};

// A part of a row-major matrix: rows [row, row + rows) and columns [column, column + columns) are
// there, and what a tile has beyond is 0.
template <class T>
struct TileSource {
  const T* matrix;
  int64_t stride;
  int64_t row, rows;
  int64_t column, columns;
  bool packs;  // all rows consist of packs
};

// Asks for a tile of kRows x kColumns; what is no pack is copied at once. The caller ends the group
// of copies. By all threads.
template <int kRows, int kColumns, class T>
__device__ void fetch_tile(const TileSource<T>& from, T* tile) {
  constexpr int kStride = GroupedTile<T, kColumns>::kStride;
  if (from.packs) {
    constexpr int kPack = cuda::kPackOf<T>;
    constexpr int kPacks = kColumns / kPack;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kGroupedThreads) {
      const int row = i / kPacks;
      const int column = i % kPacks * kPack;
      const bool there = row < from.rows && column < from.columns;
      const T* const at =
          there ? from.matrix + (from.row + row) * from.stride + from.column + column : from.matrix;
      cuda::copy_async(tile + row * kStride + column, at, there);
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kColumns; i += kGroupedThreads) {
    const int row = i / kColumns;
    const int column = i % kColumns;
    const bool there = row < from.rows && column < from.columns;
    tile[row * kStride + column] =
        there ? from.matrix[(from.row + row) * from.stride + from.column + column] : T{};
  }
}

// How the factors of a stage lie: the left one [rows, depth] or [depth, rows], the right one
// [columns, depth] or [depth, columns].
enum class LeftTile : uint8_t { kRows, kDepth };
enum class RightTile : uint8_t { kColumns, kDepth };

// sums += left * right, 16 rows of a warp.
template <LeftTile kLeft, RightTile kRight, class T>
__device__ void add_stage(const T* left, const T* right, Sums (&sums)[kGroupedTiles]) {
  constexpr int kLeftStride = GroupedTile < T,
                kLeft == LeftTile::kRows ? kGroupedDepth : kGroupedRows > ::kStride;
  constexpr int kRightStride = GroupedTile < T,
                kRight == RightTile::kColumns ? kGroupedDepth : kGroupedColumns > ::kStride;
  const int row = static_cast<int>(threadIdx.x) / cuda::kWarp * cuda::kTileRows;
  DS_UNROLL
  for (int k = 0; k < kGroupedDepth; k += Mma<T>::kDepth) {
    const auto a = [&] {
      if constexpr (kLeft == LeftTile::kRows) {
        return Mma<T>::load_a(left + row * kLeftStride + k, kLeftStride);
      } else {
        return Mma<T>::load_a_columns(left + k * kLeftStride + row, kLeftStride);
      }
    }();
    DS_UNROLL
    for (int n = 0; n < kGroupedTiles; n += 2) {
      const int column = n * cuda::kTileColumns;
      const auto b = [&] {
        if constexpr (kRight == RightTile::kColumns) {
          return Mma<T>::load_b(right + column * kRightStride + k, kRightStride);
        } else {
          return Mma<T>::load_b_rows(right + k * kRightStride + column, kRightStride);
        }
      }();
      Mma<T>::multiply(a, b[0], sums[n]);
      Mma<T>::multiply(a, b[1], sums[n + 1]);
    }
  }
}

// A TileTarget says where the sums of a block go: `rows` x `columns` elements from `to` on.
template <class Y>
struct TileTarget {
  Y* to;
  int64_t stride;
  int64_t rows, columns;
  bool accumulate;
};
template <class Y>
__device__ void write_sums(const Sums (&sums)[kGroupedTiles], const TileTarget<Y>& target) {
  const int lane = cuda::lane_of_warp();
  const int first = static_cast<int>(threadIdx.x) / cuda::kWarp * cuda::kTileRows + lane / 4;
  DS_UNROLL
  for (int n = 0; n < kGroupedTiles; ++n) {
    DS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = first + i / 2 * 8;
      const int column = n * cuda::kTileColumns + lane % 4 * 2 + i % 2;
      if (row >= target.rows || column >= target.columns) continue;
      Y* const at = target.to + row * target.stride + column;
      const float before = target.accumulate ? static_cast<float>(*at) : 0.0F;
      *at = static_cast<Y>(before + sums[n][static_cast<size_t>(i)]);
    }
  }
}

}  // namespace ds::kernels::detail
