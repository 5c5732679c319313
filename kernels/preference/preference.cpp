// The front of losses of preferences, see preference.h: what operands must be, and what they cost.
#include "kernels/preference/preference.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/preference/preference_cpu.h"
#include "kernels/preference/preference_cuda.h"
#include "kernels/preference/preference_formula.h"

namespace ds::kernels {
namespace {

// How many there are, by their sums.
int64_t samples_of(std::string_view op, const Stream& stream, const Tensor& sums) {
  DS_CHECK(sums.defined() && sums.shape().rank() == 2 && sums.shape()[1] == detail::kPreferenceSums,
           "{}: sums are no matrix [samples, {}]", op, detail::kPreferenceSums);
  detail::require_like(op, "sums", stream, sums, sums.numel(), DType::kF64);
  return sums.shape()[0];
}

// Rows of whole samples that have a target and a side each.
void check_rows(std::string_view op, const Stream& stream, int64_t samples, int64_t rows,
                const Tensor& targets, const Tensor& sides) {
  DS_CHECK(samples == 0 ? rows == 0 : rows % samples == 0, "{}: {} rows of {} samples", op, rows,
           samples);
  detail::require_like(op, "targets", stream, targets, rows, DType::kI32);
  detail::require_like(op, "sides", stream, sides, rows, DType::kI32);
}

void check_rule(std::string_view op, const PreferenceRule& rule) {
  DS_CHECK(rule.beta > 0, "{}: beta is {}, expected more than 0", op, rule.beta);
  const double smoothing = rule.label_smoothing;
  if (rule.loss == PreferenceLoss::kExoPair) {
    DS_CHECK(smoothing > 0 && smoothing < 1,
             "{}: label_smoothing of exo_pair is {}, expected 0 < label_smoothing < 1", op,
             smoothing);
  }
  if (rule.loss == PreferenceLoss::kRobust) {
    DS_CHECK(smoothing >= 0 && smoothing < 0.5,
             "{}: label_smoothing of robust is {}, expected 0 <= label_smoothing < 0.5", op,
             smoothing);
  }
  if (rule.loss == PreferenceLoss::kDiscopop) {
    DS_CHECK(rule.discopop_tau > 0, "{}: discopop_tau is {}, expected more than 0", op,
             rule.discopop_tau);
  }
  if (rule.loss == PreferenceLoss::kCpo || rule.loss == PreferenceLoss::kSimpo) {
    DS_CHECK(smoothing >= 0 && smoothing < 1,
             "{}: label_smoothing of cpo and simpo is {}, expected 0 <= label_smoothing < 1", op,
             smoothing);
    DS_CHECK(rule.cpo_alpha >= 0, "{}: cpo_alpha is {}, expected 0 or more", op, rule.cpo_alpha);
  }
}

}  // namespace

void preference_sums(Stream& stream, const PreferenceSumsArgs& args) {
  constexpr std::string_view kOp = "preference_sums";
  const int64_t samples = samples_of(kOp, stream, args.sums);
  const int64_t rows = args.targets.defined() ? args.targets.numel() : 0;
  check_rows(kOp, stream, samples, rows, args.targets, args.sides);
  detail::require_like(kOp, "losses", stream, args.losses, rows, DType::kF32);
  stream.report(kOp, {.flops = 2.0 * static_cast<double>(rows),
                      .bytes = static_cast<double>(args.losses.bytes() + args.targets.bytes() +
                                                   args.sides.bytes() + args.sums.bytes())});
  if (samples == 0) return;
  on_device(
      stream, [&](Cpu) { detail::preference_sums_cpu(stream, args); },
      [&](Cuda) { detail::preference_sums_cuda(stream, args); });
}

void preference_loss(Stream& stream, const PreferenceLossArgs& args) {
  constexpr std::string_view kOp = "preference_loss";
  constexpr double kFlops = 200;  // of a sample: some exponentials and logarithms
  check_rule(kOp, args.rule);
  const int64_t samples = samples_of(kOp, stream, args.sums);
  const int64_t rows = args.targets.defined() ? args.targets.numel() : 0;
  check_rows(kOp, stream, samples, rows, args.targets, args.sides);
  if (has_reference(args.rule.loss)) {
    detail::require_like(kOp, "reference", stream, args.reference, 2 * samples, DType::kF64);
  } else {
    DS_CHECK(!args.reference.defined(), "{}: a reference for a loss that has none", kOp);
  }
  detail::require_like(kOp, "losses", stream, args.losses, samples, DType::kF32);
  if (args.figures.defined()) {
    detail::require_like(kOp, "figures", stream, args.figures, detail::kPreferenceFigures * samples,
                         DType::kF32);
  }
  if (args.row_weights.defined()) {
    detail::require_like(kOp, "row_weights", stream, args.row_weights, rows, DType::kF32);
  }
  const size_t of_rows = args.row_weights.defined() ? 3 * args.row_weights.bytes() : 0;
  stream.report(kOp, {.flops = kFlops * static_cast<double>(samples),
                      .bytes = static_cast<double>(2 * args.sums.bytes() + of_rows)});
  if (samples == 0) return;
  on_device(
      stream, [&](Cpu) { detail::preference_loss_cpu(stream, args); },
      [&](Cuda) { detail::preference_loss_cuda(stream, args); });
}

}  // namespace ds::kernels
