#include "zero/zenflow/column_sums.h"

#include <algorithm>

#include "core/device/across.h"
#include "core/device/host_tensor.h"
#include "kernels/selection/selection.h"

namespace ds {
namespace {

kernels::MatrixRange range_of(const ShardField& field, const ZenflowMatrix& matrix) {
  return {.first = field.param_begin, .numel = field.numel, .columns = matrix.columns};
}

}  // namespace

ColumnSums::ColumnSums(std::span<const ZenflowMatrix> matrices,
                       std::span<const std::vector<ShardField>> slices, Communicator& ranks,
                       Stream& compute, Stream& host)
    : matrices_(matrices), ranks_(ranks), compute_(compute) {
  offsets_.push_back(0);
  for (const ZenflowMatrix& matrix : matrices_) {
    offsets_.push_back(offsets_.back() + matrix.columns);
  }
  if (offsets_.back() == 0) return;
  int64_t parts = 1;
  for (const std::vector<ShardField>& fields : slices) {
    for (const ShardField& field : fields) {
      const int index = matrix_of(matrices_, field.param);
      if (index < 0) continue;
      const ZenflowMatrix& matrix = nth(matrices_, index);
      parts = std::max(parts, kernels::groups_of_rows(range_of(field, matrix)) * matrix.columns);
    }
  }
  const auto room = [&](int64_t numel, Stream& stream) {
    return Tensor::zeros({numel}, DType::kF64, stream, MemoryTag::kOptimizer);
  };
  const int64_t columns = offsets_.back();
  sums_ = room(columns, compute_);
  parts_ = room(parts, compute_);
  gathered_ = ranks_.size() == 1 ? sums_ : room(columns * ranks_.size(), compute_);
  host_gathered_ = room(columns * ranks_.size(), host);
}

void ColumnSums::add(std::span<const ShardField> fields, const Tensor& slice, Stream& stream) {
  for (const ShardField& field : fields) {
    const int index = matrix_of(matrices_, field.param);
    if (index < 0) continue;
    const ZenflowMatrix& matrix = nth(matrices_, index);
    Tensor sums = sums_.narrow(nth(offsets_, index), matrix.columns);
    kernels::column_squares(stream, slice.narrow(field.offset, field.numel),
                            range_of(field, matrix), parts_, sums);
  }
}

std::vector<double> ColumnSums::of_all_ranks() {
  if (offsets_.back() == 0) return {};
  if (ranks_.size() > 1) ranks_.all_gather(sums_, gathered_, compute_);
  copy_across(compute_, Link::kToHost, gathered_.address(), host_gathered_.address(),
              gathered_.bytes(), {.what = "squares of columns"});
  compute_.synchronize();
  const std::span<const double> from = host_values<double>(host_gathered_);
  if (from.empty()) return {};
  const int64_t columns = offsets_.back();
  std::vector<double> all(to_size(columns), 0.0);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (int64_t i = 0; i < columns; ++i) all[to_size(i)] += nth(from, rank * columns + i);
  }
  return all;
}

std::span<const double> ColumnSums::of(std::span<const double> all, int matrix) const {
  return all.subspan(to_size(nth(offsets_, matrix)), to_size(nth(matrices_, matrix).columns));
}

}  // namespace ds
