#include "model/functions/row_dropout.h"

#include <algorithm>

#include "kernels/elementwise/activation.h"
#include "model/exchange/sequence.h"

namespace ds {
namespace {

// Samples of which a part is here are not one run of numbers. `first`: of those that are here,
// where other ranks have the elements before.
void drop_part(Stream& stream, const Tensor& x, float p, kernels::DropoutMask mask,
               const SamplePart& part, int64_t first, Tensor& y) {
  if (part.is_whole()) {
    mask.skipped = first;
    return kernels::dropout(stream, x, p, mask, part.sample_numel, y);
  }
  int64_t begin = 0;  // of a run, among those that are here
  for (int64_t sample = 0; begin < first + x.numel(); ++sample) {
    for (const Range& kept : part.kept) {
      const int64_t from = std::max(begin, first);
      const int64_t end = std::min(begin + kept.numel(), first + x.numel());
      if (from < end) {
        mask.skipped = sample * part.sample_numel + kept.begin + (from - begin);
        Tensor to = y.narrow(from - first, end - from);
        kernels::dropout(stream, x.narrow(from - first, end - from), p, mask, part.sample_numel,
                         to);
      }
      begin += kept.numel();
    }
  }
}

}  // namespace

DroppedRows rows_of_pass(const Context& context) {
  return {.micro = context.pass.mode == RunMode::kTrain ? context.pass.micro : nullptr,
          .parallel = &context.parallel,
          .length = context.pass.length,
          .first = context.pass.first_row};
}

bool drops(const DroppedRows& rows, const DropoutSpec& spec) {
  return rows.micro != nullptr && spec.p > 0;
}

Tensor dropped(Stream& stream, const DroppedRows& rows, const DropoutSpec& spec, Tensor x) {
  if (!drops(rows, spec)) return x;
  const int64_t width = x.shape()[1];
  const Tensor from = std::move(x);
  Tensor to = from.is_sole_owner() ? from : Tensor::empty(from.shape(), from.dtype(), stream);
  drop_part(stream, from, spec.p, {rows.micro, spec.site},
            sample_part(*rows.parallel, rows.length, width), rows.first * width, to);
  return to;
}

}  // namespace ds
