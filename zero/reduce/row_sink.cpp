#include "zero/reduce/row_sink.h"

#include <utility>

#include "core/status/error.h"
#include "kernels/elementwise/elementwise.h"

namespace ds {

RowSink::RowSink(SinkParts parts, RowWire rows, std::vector<Tensor> wholes, size_t params)
    : SendingSink(std::move(parts)),
      rows_(std::move(rows)),
      wholes_(std::move(wholes)),
      touched_(params) {
  for (const Tensor& sum : wholes_) slices_.push_back(rows_.wire->own(sum));
}

void RowSink::rows_touched(int param, const Tensor& order) {
  nth(touched_, param) = rows_.exchange.list(order);
}

// The first micro-step of several clears what rows of the later are added to; where sums stay in
// the memory that is written, every row that this rank does not touch is zero already.
void RowSink::send(int bucket) {
  Tensor sums = nth(wholes_, bucket);
  const bool first = period().begins_sum(), apart = !sums.aliases(whole(bucket));
  if (apart && first) kernels::fill(streams().peers, sums, 0.0F);
  for (const BucketParam& at : layout_of(bucket).params) {
    Tensor& lists = nth(touched_, at.param);
    DS_CHECK(lists.defined(), "gradient of parameter {}: nobody has said which rows it has",
             at.param);
    const Shape shape{at.numel / rows_.columns, rows_.columns};
    Tensor sum = view(sums, at.param, shape);
    rows_.exchange.add_up(lists, view(whole(bucket), at.param, shape),
                          first ? kernels::Write::kOverwrite : kernels::Write::kAccumulate, sum);
  }
}

}  // namespace ds
