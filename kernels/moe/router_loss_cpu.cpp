// Losses of routers on the CPU: threads have groups of tokens whose extent does not depend on how
// many threads there are.
#include "kernels/moe/router_loss_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/tasks/thread_pool.h"
#include "kernels/front/loss_scale.h"
#include "kernels/moe/router_loss_formula.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kTokensOfShare = 16;  // a share of the tokens is a multiple of it

// [groups, experts]: sums of scores over groups of tokens.
std::vector<double> sums_of_groups(const Stream& stream, const Tensor& scores, int64_t experts) {
  const int64_t tokens = scores.numel() / experts;
  const int64_t groups = (tokens + kTokensOfSum - 1) / kTokensOfSum;
  std::vector<double> sums(to_size(groups * experts), 0);
  const auto* const from = scores.data<float>();
  stream.pool().parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin * kTokensOfSum; n < std::min(tokens, end * kTokensOfSum); ++n) {
      double* const to = sums.data() + n / kTokensOfSum * experts;
      for (int64_t e = 0; e < experts; ++e) to[e] += static_cast<double>(from[n * experts + e]);
    }
  });
  return sums;
}

double log_sum_exp_of(const float* logits, int64_t experts) {
  const double top = static_cast<double>(*std::max_element(logits, logits + experts));
  double sum = 0;
  for (int64_t e = 0; e < experts; ++e) sum += std::exp(static_cast<double>(logits[e]) - top);
  return top + std::log(sum);
}

}  // namespace

void balance_loss_cpu(Stream& stream, const BalanceLoss& args, Tensor& loss) {
  const int64_t experts = args.counts.numel();
  const int64_t tokens = args.scores.numel() / experts;
  const std::vector<double> sums = sums_of_groups(stream, args.scores, experts);
  const auto* const counts = args.counts.data<int32_t>();
  double total = 0;
  for (int64_t e = 0; e < experts; ++e) {
    double of_expert = 0;
    for (size_t i = to_size(e); i < sums.size(); i += to_size(experts)) of_expert += sums[i];
    total += of_expert * static_cast<double>(counts[e]);
  }
  loss.data<double>()[0] = balance_loss_of(total, tokens, experts, args.choices);
}

void balance_loss_backward_cpu(Stream& stream, const BalanceLoss& args,
                               const LossGradient& gradient, Tensor& dscores) {
  const int64_t experts = args.counts.numel();
  const int64_t tokens = args.scores.numel() / experts;
  const double scale = static_cast<double>(scaled(gradient.grad_scale, gradient.loss_scale));
  const auto* const counts = args.counts.data<int32_t>();
  auto* const out = dscores.data<float>();
  std::vector<float> slopes;
  for (int64_t e = 0; e < experts; ++e) {
    const double loss =
        balance_loss_of(static_cast<double>(counts[e]), tokens, experts, args.choices);
    slopes.push_back(static_cast<float>(loss * scale));
  }
  stream.pool().parallel_for(tokens, kTokensOfShare, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * experts; i < end * experts; ++i) {
      const float slope = slopes[to_size(i % experts)];
      out[i] = gradient.write == Write::kAccumulate ? out[i] + slope : slope;
    }
  });
}

void z_loss_cpu(Stream& stream, const Tensor& logits, int64_t experts, Tensor& loss) {
  const int64_t tokens = logits.numel() / experts;
  const auto* const from = logits.data<float>();
  std::vector<double> squares(to_size(tokens), 0);
  stream.pool().parallel_for(tokens, kTokensOfShare, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const double z = log_sum_exp_of(from + n * experts, experts);
      squares[to_size(n)] = z * z;
    }
  });
  double sum = 0;
  for (int64_t lane = 0; lane < kLanesOfSum; ++lane) {
    sum += sum_of_lane(squares.data(), tokens, lane);
  }
  loss.data<double>()[0] = tokens == 0 ? 0.0 : sum / static_cast<double>(tokens);
}

void z_loss_backward_cpu(Stream& stream, const Tensor& logits, int64_t experts,
                         const LossGradient& gradient, Tensor& dlogits) {
  const int64_t tokens = logits.numel() / experts;
  const auto* const from = logits.data<float>();
  auto* const out = dlogits.data<float>();
  const float scale = scaled(gradient.grad_scale, gradient.loss_scale);
  stream.pool().parallel_for(tokens, kTokensOfShare, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const double z = log_sum_exp_of(from + n * experts, experts);
      for (int64_t i = n * experts; i < (n + 1) * experts; ++i) {
        const float slope = z_slope(z, from[i], tokens, scale);
        out[i] = gradient.write == Write::kAccumulate ? out[i] + slope : slope;
      }
    }
  });
}

}  // namespace ds::kernels::detail
