// The front of distillation, see distillation.h: what operands must be, and what it costs.
#include "kernels/softmax/distillation.h"

#include "core/device/dispatch.h"
#include "kernels/front/costs.h"
#include "kernels/softmax/distillation_cpu.h"
#include "kernels/softmax/distillation_cuda.h"
#include "kernels/softmax/softmax_check.h"

namespace ds::kernels {
namespace {

using detail::bytes_of, detail::numel_of;

// An exponential of each logit for the plain sum, one for that at a temperature, and as many for
// gradients.
constexpr double kFlopsOfPass = 20;

void check(std::string_view op, const Stream& stream, const DistilledCrossEntropyArgs& args) {
  const MatrixView& student = args.student.logits;
  detail::check_logits(op, stream, args.student);
  detail::require_view(op, "the teacher's logits", stream, args.teacher);
  DS_CHECK(args.teacher.rows == student.rows, "{}: logits of {} rows and the teacher's of {}", op,
           student.rows, args.teacher.rows);
  DS_CHECK(args.teacher.columns > 0 && args.teacher.columns <= student.columns,
           "{}: the teacher's logits have {} columns, expected 1 to {} (the student's)", op,
           args.teacher.columns, student.columns);
  detail::check_rule(op, args.rule);
  if (args.divergences.defined()) {
    detail::require_like(op, "divergences", stream, args.divergences, student.rows, DType::kF32);
  }
}

int64_t check(std::string_view op, const Stream& stream, const DistilledCrossEntropyArgs& args,
              const VocabularyPart& part, const Tensor& numbers) {
  check(op, stream, args);
  DS_CHECK(args.teacher.columns == args.student.logits.columns,
           "{}: a part of {} columns of the teacher's logits, expected {} (the student's)", op,
           args.teacher.columns, args.student.logits.columns);
  return detail::check_part(op, args.student, part, numbers, kNumbersOfDistilledPart);
}

}  // namespace

void distilled_cross_entropy(Stream& stream, const DistilledCrossEntropyArgs& args) {
  constexpr std::string_view kOp = "distilled_cross_entropy";
  check(kOp, stream, args);
  const double both = numel_of(args.student.logits) + numel_of(args.teacher);
  stream.report(kOp, {.flops = 2 * kFlopsOfPass * both,
                      .bytes = 3 * bytes_of(args.student.logits) + 2 * bytes_of(args.teacher)});
  on_device(
      stream, [&](Cpu) { detail::distilled_cross_entropy_cpu(stream, args); },
      [&](Cuda) { detail::distilled_cross_entropy_cuda(stream, args); });
}

void distillation_part(Stream& stream, const DistilledCrossEntropyArgs& args,
                       const VocabularyPart& part, Tensor& numbers) {
  constexpr std::string_view kOp = "distillation_part";
  check(kOp, stream, args, part, numbers);
  detail::require_numel(kOp, "numbers", stream, numbers,
                        args.student.logits.rows * kNumbersOfDistilledPart);
  const double both = numel_of(args.student.logits) + numel_of(args.teacher);
  stream.report(kOp, {.flops = kFlopsOfPass * both,
                      .bytes = bytes_of(args.student.logits) + bytes_of(args.teacher)});
  on_device(
      stream, [&](Cpu) { detail::distillation_part_cpu(stream, args, part, numbers); },
      [&](Cuda) { detail::distillation_part_cuda(stream, args, part, numbers); });
}

void distilled_cross_entropy_of_parts(Stream& stream, const DistilledCrossEntropyArgs& args,
                                      const VocabularyPart& part, const Tensor& numbers) {
  constexpr std::string_view kOp = "distilled_cross_entropy_of_parts";
  const int64_t ranks = check(kOp, stream, args, part, numbers);
  detail::require_numel(kOp, "numbers", stream, numbers,
                        ranks * args.student.logits.rows * kNumbersOfDistilledPart);
  const double both = numel_of(args.student.logits) + numel_of(args.teacher);
  const double of_gradients = 2 * bytes_of(args.student.logits) + bytes_of(args.teacher);
  const bool backward = args.student.gradients.has_value();
  stream.report(kOp,
                {.flops = backward ? kFlopsOfPass * both : 0.0,
                 .bytes = static_cast<double>(numbers.bytes()) + (backward ? of_gradients : 0.0)});
  on_device(
      stream,
      [&](Cpu) { detail::distilled_cross_entropy_of_parts_cpu(stream, args, part, numbers); },
      [&](Cuda) { detail::distilled_cross_entropy_of_parts_cuda(stream, args, part, numbers); });
}

}  // namespace ds::kernels
