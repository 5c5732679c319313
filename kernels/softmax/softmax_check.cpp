#include "kernels/softmax/softmax_check.h"

#include <cmath>

namespace ds::kernels::detail {

void check_logits(std::string_view op, const Stream& stream, const SoftmaxCrossEntropyArgs& args) {
  require_view(op, "logits", stream, args.logits);
  DS_CHECK(args.logits.columns > 0, "{}: logits of a vocabulary of nothing", op);
  check_loss_rows(op, stream, args, args.logits.rows);
  DS_CHECK(args.softcap >= 0, "{}: logits capped at {}", op, args.softcap);
  if (!args.gradients) return;
  const DType logits = args.logits.tensor.dtype(), gradients = *args.gradients;
  const bool is_half = gradients == DType::kBF16 || gradients == DType::kF16;
  DS_CHECK(gradients == logits || (logits == DType::kF32 && is_half),
           "{}: gradients of {} logits are {}, expected {} or 16 bits over fp32", op,
           name_of(logits), name_of(gradients), name_of(logits));
}

int64_t check_part(std::string_view op, const SoftmaxCrossEntropyArgs& args,
                   const VocabularyPart& part, const Tensor& numbers, int64_t of_row) {
  const int64_t columns = args.logits.columns;
  DS_CHECK(part.first >= 0 && part.first + columns <= part.vocabulary,
           "{}: columns [{}, {}) of a vocabulary of {}", op, part.first, part.first + columns,
           part.vocabulary);
  require_dtype(op, "numbers", numbers, DType::kF32);
  const int64_t of_rank = args.logits.rows * of_row;
  return of_rank == 0 ? 1 : numbers.numel() / of_rank;
}

void check_rule(std::string_view op, const DistillationRule& rule) {
  DS_CHECK(rule.alpha >= 0 && std::isfinite(rule.alpha), "{}: alpha is {}, expected 0 or more", op,
           rule.alpha);
  DS_CHECK(rule.beta >= 0 && std::isfinite(rule.beta), "{}: beta is {}, expected 0 or more", op,
           rule.beta);
  // Its square and its inverse are numbers of fp32.
  constexpr double kLeast = 1e-15, kMost = 1e15;
  DS_CHECK(rule.temperature >= kLeast && rule.temperature <= kMost,
           "{}: a temperature of {}, expected more than 0 ({} to {})", op, rule.temperature, kLeast,
           kMost);
}

void check_teacher(std::string_view op, const Stream& stream, const TeacherHead& teacher,
                   int64_t rows, int64_t vocabulary) {
  DS_CHECK(teacher.weight.defined() && teacher.weight.shape().rank() == 2,
           "{}: the teacher's weight is not a matrix [V, C]", op);
  const int64_t words = teacher.weight.shape()[0], width = teacher.weight.shape()[1];
  DS_CHECK(words > 0 && words <= vocabulary,
           "{}: the teacher's vocabulary has {} words, expected 1 to {} (the student's)", op, words,
           vocabulary);
  require_numel(op, "the teacher's weight", stream, teacher.weight, words * width);
  require_numel(op, "the teacher's x", stream, teacher.x, rows * width);
  require_float(op, "the teacher's x", teacher.x);
  require_dtype(op, "the teacher's weight", teacher.weight, teacher.x.dtype());
  if (teacher.bias.defined()) {
    require_numel(op, "the teacher's bias", stream, teacher.bias, words);
    require_float(op, "the teacher's bias", teacher.bias);
  }
  DS_CHECK(teacher.softcap >= 0, "{}: the teacher's logits capped at {}", op, teacher.softcap);
  check_rule(op, teacher.rule);
  if (teacher.divergences.defined()) {
    require_like(op, "divergences", stream, teacher.divergences, rows, DType::kF32);
  }
}

}  // namespace ds::kernels::detail
