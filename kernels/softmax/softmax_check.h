// What the operands of the losses of kernels/softmax must be, for their fronts. All throw
// InternalError in the words of `op`.
#pragma once

#include <string_view>

#include "kernels/front/argument.h"
#include "kernels/softmax/distillation_operands.h"
#include "kernels/softmax/softmax_operands.h"

namespace ds::kernels::detail {

// What a loss has of each row, in the arguments of any form.
template <class Args>
void check_loss_rows(std::string_view op, const Stream& stream, const Args& args, int64_t rows) {
  require_numel(op, "targets", stream, args.targets, rows);
  require_dtype(op, "targets", args.targets, DType::kI32);
  if (args.row_weights.defined()) {
    require_like(op, "row_weights", stream, args.row_weights, rows, DType::kF32);
  }
  require_numel(op, "losses", stream, args.losses, rows);
  require_dtype(op, "losses", args.losses, DType::kF32);
}
void check_logits(std::string_view op, const Stream& stream, const SoftmaxCrossEntropyArgs& args);
// The ranks whose numbers these are, `of_row` for each row; 1 where there are no rows.
int64_t check_part(std::string_view op, const SoftmaxCrossEntropyArgs& args,
                   const VocabularyPart& part, const Tensor& numbers, int64_t of_row);
void check_rule(std::string_view op, const DistillationRule& rule);
// `rows` and `vocabulary`: the student's.
void check_teacher(std::string_view op, const Stream& stream, const TeacherHead& teacher,
                   int64_t rows, int64_t vocabulary);

}  // namespace ds::kernels::detail
