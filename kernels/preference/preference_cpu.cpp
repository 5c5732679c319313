// Losses of preferences on the CPU, sample by sample, shared out among the stream's threads.
#include "kernels/preference/preference_cpu.h"

#include <algorithm>

#include "core/tasks/thread_pool.h"
#include "kernels/preference/preference_formula.h"

namespace ds::kernels::detail {

void preference_sums_cpu(Stream& stream, const PreferenceSumsArgs& args) {
  const int64_t samples = args.sums.shape()[0], length = args.targets.numel() / samples;
  const auto* const losses = args.losses.data<float>();
  const auto* const targets = args.targets.data<int32_t>();
  const auto* const sides = args.sides.data<int32_t>();
  auto* const sums = args.sums.data<double>();
  stream.pool().parallel_for(samples, 1, [&](int64_t begin, int64_t end) {
    for (int64_t sample = begin; sample < end; ++sample) {
      double* const own = sums + sample * kPreferenceSums;
      std::fill_n(own, kPreferenceSums, 0.0);
      for (int64_t row = sample * length; row < (sample + 1) * length; ++row) {
        add_row(own, targets[row], sides[row], losses[row]);
      }
    }
  });
}

void preference_loss_cpu(Stream& stream, const PreferenceLossArgs& args) {
  const int64_t samples = args.sums.shape()[0], length = args.targets.numel() / samples;
  const auto* const sums = args.sums.data<double>();
  const auto* const reference = args.reference.defined() ? args.reference.data<double>() : nullptr;
  const auto* const targets = args.targets.data<int32_t>();
  const auto* const sides = args.sides.data<int32_t>();
  auto* const losses = args.losses.data<float>();
  auto* const figures = args.figures.defined() ? args.figures.data<float>() : nullptr;
  auto* const weights = args.row_weights.defined() ? args.row_weights.data<float>() : nullptr;
  double tokens = 0;
  for (int64_t sample = 0; sample < samples; ++sample) {
    tokens += likely_tokens(sums + sample * kPreferenceSums);
  }
  const double likelihood = likelihood_of_token(args.rule, samples, tokens);
  stream.pool().parallel_for(samples, 1, [&](int64_t begin, int64_t end) {
    for (int64_t sample = begin; sample < end; ++sample) {
      const double* const of_pair = reference == nullptr ? nullptr : reference + sample * 2;
      const SampleLoss one =
          sample_loss(args.rule, sums + sample * kPreferenceSums, of_pair, likelihood);
      write_sample(one, sample, samples, losses, figures);
      if (weights == nullptr) continue;
      for (int64_t row = sample * length; row < (sample + 1) * length; ++row) {
        weights[row] = row_weight(one, targets[row], sides[row]);
      }
    }
  });
}

}  // namespace ds::kernels::detail
