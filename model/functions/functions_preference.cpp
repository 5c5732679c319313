#include <array>

#include "comm/contract/communicator.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/preference/preference.h"
#include "model/functions/functions.h"

namespace ds {

namespace {

constexpr std::array kFigures{"reward_chosen", "reward_rejected", "reward_accuracy",
                              "reward_margin"};

// What the ranks with the other tokens of the same samples count, too, counts once.
void share_out(Context& context, Tensor& numbers) {
  const Communicator* const sharers = context.parallel.group(Axis::kSequence);
  if (sharers == nullptr) return;
  kernels::scale(context.stream, 1.0F / static_cast<float>(sharers->size()), numbers);
}

}  // namespace

std::vector<std::string_view> preference_figures() { return {kFigures.begin(), kFigures.end()}; }

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved on
Tensor preference_losses(Context& context, Var x, const LogitsSpec& spec,
                         const PreferencePairs& pairs, float grad_scale) {
  Stream& stream = context.stream;
  const int64_t samples = pairs.samples, rows = pairs.targets.numel();
  Tensor sums = Tensor::empty({samples, 6}, DType::kF64, stream);
  {
    Context scoring = context.with(*context.store, nullptr);
    const Tensor of_tokens = linear_cross_entropy(scoring, x, spec, pairs.targets, grad_scale);
    kernels::preference_sums(
        stream,
        {.losses = of_tokens, .targets = pairs.targets, .sides = pairs.sides, .sums = sums});
  }
  if (Communicator* const sharers = context.parallel.group(Axis::kSequence)) {
    sharers->all_reduce(sums, ReduceOp::kSum, stream);
  }
  if (context.scores != nullptr) context.scores->on_scores(stream, sums, {}, {});
  Tensor losses = Tensor::empty({samples}, DType::kF32, stream);
  Tensor figures = Tensor::empty({std::ssize(kFigures), samples}, DType::kF32, stream);
  Tensor weights;
  if (context.differentiates()) weights = Tensor::empty({rows}, DType::kF32, stream);
  kernels::preference_loss(stream, {.rule = pairs.rule,
                                    .sums = sums,
                                    .reference = pairs.reference,
                                    .targets = pairs.targets,
                                    .sides = pairs.sides,
                                    .losses = losses,
                                    .figures = figures,
                                    .row_weights = weights});
  share_out(context, losses);
  share_out(context, figures);
  for (int64_t i = 0; const char* const name : kFigures) {
    context.report_loss(name, figures.narrow(i++ * samples, samples));
  }
  if (context.differentiates()) {
    linear_cross_entropy(context, std::move(x), spec, pairs.targets, grad_scale, weights);
  }
  return losses;
}

}  // namespace ds
