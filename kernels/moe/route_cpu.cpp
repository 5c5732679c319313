// Routing on the CPU: a token at a time, tokens shared out among the stream's threads.
#include "kernels/moe/route_cpu.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "core/tasks/thread_pool.h"
#include "kernels/moe/route_formula.h"

namespace ds::kernels::detail {
namespace {

constexpr int64_t kTokensAtOnce = 16;  // of a thread's share

using Row = std::array<float, kMostExperts>;

void score_experts(const RouteRule& rule, std::span<const float> logits, float* scores) {
  const auto experts = logits.size();
  if (rule.score == RouterScore::kSigmoid) {
    std::transform(logits.begin(), logits.end(), scores, router_sigmoid);
    return;
  }
  const float top = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (size_t e = 0; e < experts; ++e) sum += scores[e] = exponential(logits[e] - top);
  for (size_t e = 0; e < experts; ++e) scores[e] /= sum;
}

// The best `count` of `size` keys, best first.
template <size_t kSize>
void best_first(std::array<uint64_t, kSize>& keys, int64_t count, int64_t size) {
  std::partial_sort(keys.begin(), keys.begin() + count, keys.begin() + size,
                    std::greater<uint64_t>());
}

// Keys of experts that are in none of the token's groups become 0.
void leave_out_groups(const RouteRule& rule, const float* ranks, uint64_t* keys) {
  const int64_t size = rule.experts / rule.groups;
  std::array<uint64_t, kMostExperts> of_groups;
  for (int64_t g = 0; g < rule.groups; ++g) {
    of_groups[to_size(g)] = choice_key(group_rank(rule.group_score, ranks + g * size, size), g);
  }
  best_first(of_groups, rule.limited_groups, rule.groups);
  for (int64_t g = rule.limited_groups; g < rule.groups; ++g) {
    std::fill_n(keys + index_of_key(of_groups[to_size(g)]) * size, size, uint64_t{0});
  }
}

void choose_experts(const RouteRule& rule, const float* ranks, int32_t* experts) {
  std::array<uint64_t, kMostExperts> keys;
  for (int64_t e = 0; e < rule.experts; ++e) keys[to_size(e)] = choice_key(ranks[e], e);
  if (rule.groups > 1) leave_out_groups(rule, ranks, keys.data());
  best_first(keys, rule.choices, rule.experts);
  for (int64_t j = 0; j < rule.choices; ++j) experts[j] = index_of_key(keys[to_size(j)]);
}

// dlogits = (or +=) what the gradients of a token's scores, which are in `dlogits_of`, say.
void backward_of_scores(const RouteRule& rule, const float* scores, const float* dscores,
                        Write write, float* dlogits) {
  float mean = 0;
  if (rule.score == RouterScore::kSoftmax) {
    for (int64_t e = 0; e < rule.experts; ++e) mean += dscores[e] * scores[e];
  }
  for (int64_t e = 0; e < rule.experts; ++e) {
    const float slope = rule.score == RouterScore::kSoftmax
                            ? scores[e] * (dscores[e] - mean)
                            : dscores[e] * scores[e] * (1.0F - scores[e]);
    dlogits[e] = write == Write::kAccumulate ? dlogits[e] + slope : slope;
  }
}

}  // namespace

void route_cpu(Stream& stream, const RouteArgs& args) {
  const RouteRule& rule = args.rule;
  const int64_t tokens = args.experts.numel() / rule.choices;
  const auto* const logits = args.logits.data<float>();
  const float* const bias = args.bias.defined() ? args.bias.data<float>() : nullptr;
  const uint8_t* const used = args.used.defined() ? args.used.data<uint8_t>() : nullptr;
  auto* const experts = args.experts.data<int32_t>();
  auto* const weights = args.weights.data<float>();
  auto* const all_scores = args.scores.defined() ? args.scores.data<float>() : nullptr;
  const bool by_score = ranks_by_score(rule, bias != nullptr);
  stream.pool().parallel_for(tokens, kTokensAtOnce, [&](int64_t begin, int64_t end) {
    Row own, ranks;
    for (int64_t n = begin; n < end; ++n) {
      const float* const row = logits + n * rule.experts;
      float* const scores = all_scores != nullptr ? all_scores + n * rule.experts : own.data();
      score_experts(rule, {row, to_size(rule.experts)}, scores);
      if (used != nullptr && used[n] == 0) {
        std::fill_n(experts + n * rule.choices, rule.choices, -1);
      } else {
        for (int64_t e = 0; e < rule.experts; ++e) {
          ranks[to_size(e)] = by_score ? scores[e] + (bias != nullptr ? bias[e] : 0.0F) : row[e];
        }
        choose_experts(rule, ranks.data(), experts + n * rule.choices);
      }
      weigh_choices(rule, scores, experts + n * rule.choices, weights + n * rule.choices);
    }
  });
}

void route_weights_cpu(Stream& stream, const RouteRule& rule, const Tensor& scores,
                       const Tensor& experts, Tensor& weights) {
  const auto* const of_experts = scores.data<float>();
  const auto* const chosen = experts.data<int32_t>();
  auto* const out = weights.data<float>();
  const int64_t tokens = experts.numel() / rule.choices;
  stream.pool().parallel_for(tokens, kTokensAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      weigh_choices(rule, of_experts + n * rule.experts, chosen + n * rule.choices,
                    out + n * rule.choices);
    }
  });
}

void route_backward_cpu(Stream& stream, const RouteBackwardArgs& args) {
  const RouteRule& rule = args.rule;
  const int64_t tokens = args.experts.numel() / rule.choices;
  const auto* const dscores = args.dscores.defined() ? args.dscores.data<float>() : nullptr;
  stream.pool().parallel_for(tokens, kTokensAtOnce, [&](int64_t begin, int64_t end) {
    Row row;
    for (int64_t n = begin; n < end; ++n) {
      const float* const scores = args.scores.data<float>() + n * rule.experts;
      const int32_t* const experts = args.experts.data<int32_t>() + n * rule.choices;
      const float* const dweights = args.dweights.data<float>() + n * rule.choices;
      if (dscores != nullptr) {
        std::copy_n(dscores + n * rule.experts, rule.experts, row.data());
      } else {
        std::fill_n(row.data(), rule.experts, 0.0F);
      }
      const WeightGradient of = weight_gradient(rule, scores, experts, dweights);
      for (int64_t j = 0; j < rule.choices; ++j) {
        if (experts[j] < 0 || experts[j] >= rule.experts) continue;
        row[to_size(experts[j])] += of.factor * (dweights[j] - of.mean);
      }
      backward_of_scores(rule, scores, row.data(), args.write,
                         args.dlogits.data<float>() + n * rule.experts);
    }
  });
}

}  // namespace ds::kernels::detail
