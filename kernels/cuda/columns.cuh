// Sums down columns, whose bits depend on the rows alone: first over groups of 64 rows, each by one
// thread per column, then over the groups in order.
#pragma once

#include "core/tensor.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/gemm/matmul.h"

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

// y = (or +=) sum number `sum` of all groups.
template <class Y>
__global__ void column_totals_kernel(int64_t groups, int64_t columns, int sums, int sum,
                                     const float* parts, bool accumulate, Y* y) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t column = begin; column < columns; column += threads) {
    float total = accumulate ? static_cast<float>(y[column]) : 0.0F;
    for (int64_t group = 0; group < groups; ++group) {
      total += parts[(group * sums + sum) * columns + column];
    }
    y[column] = static_cast<Y>(total);
  }
}

template <int kSums>
class ColumnSums {
 public:
  template <class Term>
  ColumnSums(std::string_view name, Stream& stream, int64_t rows, int64_t columns, Term term)
      : name_(name),
        columns_(columns),
        groups_(groups_of(rows)),
        parts_(scratch(stream, rows, columns)) {
    launch(name, column_parts_kernel<kSums, Term>, shape_for(groups_ * columns), stream, rows,
           columns, term, parts());
  }

  static Tensor scratch(Stream& stream, int64_t rows, int64_t columns) {
    return Tensor::empty({groups_of(rows) * kSums * columns}, DType::kF32, stream,
                         MemoryTag::kScratch);
  }

  template <class Y>
  void write(Stream& stream, int sum, kernels::Write how, Y* y) const {
    launch(name_, column_totals_kernel<Y>, shape_for(columns_), stream, groups_, columns_, kSums,
           sum, parts(), how == kernels::Write::kAccumulate, y);
  }

 private:
  static int64_t groups_of(int64_t rows) { return (rows + kRowsOfGroup - 1) / kRowsOfGroup; }
  float* parts() const { return static_cast<float*>(parts_.address()); }

  const std::string_view name_;
  const int64_t columns_, groups_;
  const Tensor parts_;
};

}  // namespace ds::cuda
