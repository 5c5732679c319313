// Sums down columns, whose bits depend on the shape alone: first over groups of rows, then over the
// groups, which go to slices, each summed in order, and the slices in order.
#pragma once

#include <algorithm>

#include "core/device/tensor.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/front/write.h"

namespace ds::cuda {

inline constexpr int64_t kRowsOfGroup = 64;

// parts [groups, kSums, columns]; term(row, column, sums) adds what an element contributes.
template <int kSums, class Term>
__global__ void column_parts_kernel(int64_t rows, int64_t columns, Term term, float* parts) {
  const int64_t groups = (rows + kRowsOfGroup - 1) / kRowsOfGroup;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = begin; i < groups * columns; i += threads) {
    const int64_t group = i / columns;
    const int64_t column = i % columns;
    const int64_t first = group * kRowsOfGroup;
    const int64_t last = first + kRowsOfGroup < rows ? first + kRowsOfGroup : rows;
    float sums[kSums] = {};
    for (int64_t row = first; row < last; ++row) term(row, column, sums);
    for (int s = 0; s < kSums; ++s) parts[(group * kSums + s) * columns + column] = sums[s];
  }
}

// A block sums a warp's columns; each of its warps is a slice of the groups.
inline constexpr int64_t kMostSlices = 32;

// A ColumnTotal says where the sum of each column goes.
template <class Y>
struct ColumnTotal {
  Y* y = nullptr;
  bool accumulate = false;
};
template <int kSums, class Y>
struct ColumnTotals {
  static_assert(kSums <= 2, "column_totals_kernel() tells the first from the last");
  ColumnTotal<Y> of[kSums];
};

// y = (or +=) the sum of all groups. Blocks go over the columns of the first sum, then over those
// of the next.
template <int kSums, class Y>
__global__ void column_totals_kernel(int64_t groups, int64_t columns, const float* parts,
                                     ColumnTotals<kSums, Y> totals) {
  DS_SHARED(float, of_slices, kMostSlices* kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int slice = static_cast<int>(threadIdx.x) / kWarp;
  const int slices = static_cast<int>(blockDim.x) / kWarp;
  const int64_t blocks_of_sum = (columns + kWarp - 1) / kWarp;
  for (int64_t block = blockIdx.x; block < kSums * blocks_of_sum; block += gridDim.x) {
    const int64_t sum = block / blocks_of_sum;
    const int64_t column = block % blocks_of_sum * kWarp + lane;
    // An index that is known at run time alone would bring the operands to local memory.
    const ColumnTotal<Y> to = sum == 0 ? totals.of[0] : totals.of[kSums - 1];
    float total = 0;
    for (int64_t group = slice; column < columns && group < groups; group += slices) {
      total += parts[(group * kSums + sum) * columns + column];
    }
    of_slices[threadIdx.x] = total;
    __syncthreads();
    if (slice == 0 && column < columns) {
      total = to.accumulate ? static_cast<float>(to.y[column]) : 0.0F;
      for (int i = 0; i < slices; ++i) total += of_slices[i * kWarp + lane];
      to.y[column] = static_cast<Y>(total);
    }
    __syncthreads();  // before the next columns' sums are written there
  }
}

// The sums of every group, which a kernel has left, and what becomes of them.
template <int kSums>
class ColumnParts {
 public:
  ColumnParts(std::string_view name, Stream& stream, int64_t groups, int64_t columns)
      : name_(name), groups_(groups), columns_(columns), parts_(scratch(stream, groups, columns)) {}

  static Tensor scratch(Stream& stream, int64_t groups, int64_t columns) {
    return Tensor::empty({groups * kSums * columns}, DType::kF32, stream, MemoryTag::kScratch);
  }

  // [groups, kSums, columns]
  float* parts() const { return static_cast<float*>(parts_.address()); }

  template <class Y>
  void write(Stream& stream, const ColumnTotals<kSums, Y>& totals) const {
    // There is a slice even without any rows: it writes the sums of nothing.
    const auto threads = static_cast<int>(std::clamp<int64_t>(groups_, 1, kMostSlices)) * kWarp;
    const int64_t blocks = kSums * ((columns_ + kWarp - 1) / kWarp);
    launch(name_, column_totals_kernel<kSums, Y>, shape_for(blocks * threads, threads), stream,
           groups_, columns_, parts(), totals);
  }

 private:
  const std::string_view name_;
  const int64_t groups_, columns_;
  const Tensor parts_;
};

// Those of what `term` makes of each element.
template <int kSums>
class ColumnSums : public ColumnParts<kSums> {
 public:
  template <class Term>
  ColumnSums(std::string_view name, Stream& stream, int64_t rows, int64_t columns, Term term)
      : ColumnParts<kSums>(name, stream, groups_of(rows), columns) {
    launch(name, column_parts_kernel<kSums, Term>, shape_for(groups_of(rows) * columns), stream,
           rows, columns, term, this->parts());
  }

  static Tensor scratch(Stream& stream, int64_t rows, int64_t columns) {
    return ColumnParts<kSums>::scratch(stream, groups_of(rows), columns);
  }

 private:
  static int64_t groups_of(int64_t rows) { return (rows + kRowsOfGroup - 1) / kRowsOfGroup; }
};

}  // namespace ds::cuda
