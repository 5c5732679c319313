// ColumnSums: of every matrix of a group of parameters the sums of squares of its gradient's
// columns, over all ranks that have slices of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/contract/communicator.h"
#include "core/values/index.h"
#include "optim/optimizer.h"
#include "zero/zenflow/important_part.h"

namespace ds {

class ColumnSums {
 public:
  // slices: the fields of what this rank has. What it takes is there from the beginning.
  ColumnSums(std::span<const ZenflowMatrix> matrices,
             std::span<const std::vector<ShardField>> slices, Communicator& ranks, Stream& compute,
             Stream& host);

  // Adds the squares of the matrices' part of the slice's gradient, in the order of the stream.
  void add(std::span<const ShardField> fields, const Tensor& slice, Stream& stream);
  // What was added last, of all ranks in rank order; each rank of the group has to call it. Waits.
  // Nothing on meta.
  std::vector<double> of_all_ranks();
  // Those of a matrix in there.
  std::span<const double> of(std::span<const double> all, int matrix) const;

 private:
  const std::span<const ZenflowMatrix> matrices_;
  Communicator& ranks_;
  Stream& compute_;
  std::vector<int64_t> offsets_{};     // of each matrix, and the end
  Tensor sums_, parts_;                // fp64, of the device
  Tensor gathered_, host_gathered_{};  // likewise, of all ranks
};

}  // namespace ds
