// Row-sparse gradient arithmetic.
#include "comm/sparse_rows.h"

#include <array>

#include "core/error.h"
#include "core/index.h"

namespace ds {
namespace {

void check_dense(std::span<const float> dense, int64_t rows, int64_t columns) {
  DS_CHECK(rows >= 0 && columns >= 0 && narrow<int64_t>(dense.size()) == rows * columns,
           "sparse rows: {} numbers given for a matrix of {} x {}", dense.size(), rows, columns);
}

// In the reference's order, since rounding decides whether a sum is exactly zero: four partial sums
// over every fourth number, what is left over into the first.
float sum_of(std::span<const float> row) {
  std::array<float, 4> sums{};
  const size_t even = row.size() / 4 * 4;
  for (size_t i = 0; i < row.size(); ++i) sums[i < even ? i % 4 : 0] += row[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

void keep_row(SparseRows& sparse, std::span<const float> dense, int64_t row) {
  const auto values = dense.subspan(to_size(row * sparse.columns), to_size(sparse.columns));
  sparse.indices.push_back(row);
  sparse.values.insert(sparse.values.end(), values.begin(), values.end());
}

}  // namespace

SparseRows SparseRows::from_dense(std::span<const float> dense, int64_t rows, int64_t columns) {
  check_dense(dense, rows, columns);
  SparseRows sparse{.rows = rows, .columns = columns};
  for (int64_t row = 0; row < rows; ++row) {
    const size_t first = to_size(row * columns);
    if (sum_of(dense.subspan(first, to_size(columns))) != 0) {
      keep_row(sparse, dense, row);
    }
  }
  return sparse;
}

SparseRows SparseRows::from_rows(std::span<const float> dense, int64_t rows, int64_t columns,
                                 std::span<const int64_t> indices) {
  check_dense(dense, rows, columns);
  SparseRows sparse{.rows = rows, .columns = columns};
  for (const int64_t row : indices) {
    DS_CHECK(row >= 0 && row < rows, "sparse rows: row {} of {}", row, rows);
    keep_row(sparse, dense, row);
  }
  return sparse;
}

void SparseRows::add(const SparseRows& other) {
  DS_CHECK(rows == other.rows && columns == other.columns,
           "sparse rows: cannot add a {} x {} matrix to one of {} x {}", other.rows, other.columns,
           rows, columns);
  indices.insert(indices.end(), other.indices.begin(), other.indices.end());
  values.insert(values.end(), other.values.begin(), other.values.end());
}

void SparseRows::scale(float factor) {
  for (float& value : values) value *= factor;
}

std::vector<float> SparseRows::to_dense() const {
  std::vector<float> dense(to_size(rows * columns), 0.0F);
  for (size_t k = 0; k < indices.size(); ++k) {
    const size_t to = to_size(indices[k] * columns);
    const size_t from = k * to_size(columns);
    for (size_t c = 0; c < to_size(columns); ++c) dense[to + c] += values[from + c];
  }
  return dense;
}

int64_t SparseRows::stored_numel() const {
  return static_cast<int64_t>(indices.size() + values.size());
}

SparseRows average_over_ranks(std::span<const SparseRows> parts) {
  DS_CHECK(!parts.empty(), "sparse rows: an average over {} ranks", parts.size());
  SparseRows all{.rows = parts[0].rows, .columns = parts[0].columns};
  const float ranks = static_cast<float>(parts.size());
  for (const SparseRows& part : parts) {
    SparseRows share = part;
    share.scale(1 / ranks);
    all.add(share);
  }
  return all;
}

}  // namespace ds
