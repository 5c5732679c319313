// Row-sparse gradients (pure): the rows of an embedding gradient that a batch touched, with their
// indices, so that ranks exchange those rows instead of the whole matrix. fp32, row-major.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

struct SparseRows {
  int64_t rows = 0;  // of the dense matrix
  int64_t columns = 0;
  std::vector<int64_t> indices = {};  // row numbers in arrival order; repeats add up
  std::vector<float> values = {};     // [indices.size(), columns]

  // Keeps the rows whose sum is not zero. Testing the sum instead of every element is DeepSpeed's
  // rule; a row that cancels out exactly is dropped, so callers that know the touched rows should
  // use from_rows.
  static SparseRows from_dense(std::span<const float> dense, int64_t rows, int64_t columns);
  // Keeps exactly the given rows (for embeddings: the batch's tokens, each once).
  static SparseRows from_rows(std::span<const float> dense, int64_t rows, int64_t columns,
                              std::span<const int64_t> indices);

  // Appends the other's rows behind ours. DS_CHECKs that the dense shapes are equal.
  void add(const SparseRows& other);
  void scale(float factor);

  // The dense matrix [rows, columns] with repeated rows summed.
  std::vector<float> to_dense() const;

  // Numbers that travel (an index counts as one) and numbers of the dense matrix.
  int64_t stored_numel() const;
  int64_t dense_numel() const { return rows * columns; }
};

// What an average over ranks gives: every rank's values times 1 / the number of ranks, then
// gathered in rank order. All parts have the same dense shape; at least one part.
SparseRows average_over_ranks(std::span<const SparseRows> parts);

}  // namespace ds
